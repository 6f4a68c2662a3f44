package failures_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock/redis/session"
	"seckill/internal/testkit"
)

// childEnv makes the test binary run one job as a process that can be stopped.
const childEnv = "FAILURES_CHILD"

// job is a sale in a child process.
type job struct {
	Mechanism string
	Addr      string // of Redis
	Prefix    string
	DSN       string
}

const key = "seat"

func (j job) config() session.Config {
	return session.Config{Prefix: j.Prefix, WatchdogTimeout: lease, QueueEntryTTL: queueEntryTTL}
}

// startChild starts a process that runs a job.
func startChild(t *testing.T, j job) *testkit.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	return testkit.Start(t, testkit.Command{Path: self, Env: []string{childEnv + "=" + string(text)}})
}

// child runs the job in such a process and returns its exit code.
func child(text string) (code int) {
	var j job
	err := json.Unmarshal([]byte(text), &j)
	if err == nil {
		err = j.run(context.Background())
	}
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	return 0
}

func (j job) run(ctx context.Context) error {
	client := redis.NewClient(&redis.Options{Addr: j.Addr, ContextTimeoutEnabled: true})
	defer client.Close()
	l, err := open(j.Mechanism, client, j.config())
	if err != nil {
		return err
	}
	return j.sell(ctx, l)
}
