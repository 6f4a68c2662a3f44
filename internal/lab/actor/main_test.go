package actor_test

import (
	"context"
	"os"
	"testing"
	"time"

	"seckill/internal/lab/actor"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) {
	if os.Getenv("GORACE") == "" { // else an actor that was built with -race rests for a second before it ends
		if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
			panic(err)
		}
	}
	actor.MainIfChild()
	testkit.Main(m)
}

// patience bounds a step that should take no time.
const patience = 30 * time.Second

// soon is a context for steps that should take no time.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// play starts an actor on the shared Redis.
func play(t *testing.T, name string, prefix string) *actor.Actor {
	t.Helper()
	return actor.Start(t, actor.Config{Name: name, Prefix: prefix, RedisAddrs: []string{testkit.Redis(t).Addr()}})
}

// must is the result of a step that goes well.
func must[R any](t *testing.T) func(R, error) R {
	return func(r R, err error) R {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

// ok is a step that goes well.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until polls for something that another process brings about.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx := soon(t)
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("never came: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
