package lockclient_test

import (
	"context"
	"os"
	"testing"
	"time"

	"seckill/internal/lab/lockclient"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) {
	if os.Getenv("GORACE") == "" { // else a client that was built with -race waits for a second before it exits
		if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
			panic(err)
		}
	}
	lockclient.MainIfChild()
	testkit.Main(m)
}

// patience limits a step that should take no time.
const patience = 30 * time.Second

// soon is a context for steps that should take no time.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// play starts a client on the shared Redis.
func play(t *testing.T, name string, prefix string) *lockclient.Client {
	t.Helper()
	return lockclient.Start(t, lockclient.Config{Name: name, Prefix: prefix, RedisAddrs: []string{testkit.Redis(t).Addr()}})
}

// must returns the result of a step that must succeed.
func must[R any](t *testing.T) func(R, error) R {
	return func(r R, err error) R {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

// ok checks a step that must succeed.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
