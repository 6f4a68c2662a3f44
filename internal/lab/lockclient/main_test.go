package lockclient_test

import (
	"os"
	"testing"

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
