package failures_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/session"
	"seckill/internal/testkit"
)

// childEnv makes the test binary do one job, as a process of its own that can be
// killed and stopped, and end.
const childEnv = "FAILURES_CHILD"

// job is what a child process does, with the key it does it to.
type job struct {
	Do        string // hold, queue or sell
	Mechanism string
	Addr      string // of Redis
	Prefix    string
	TTL       time.Duration // a fixed lease; 0 is the mechanism's own
	Waiters   int           // queue: how many
	DSN       string        // sell: the database
}

const key = "seat"

func (j job) config() session.Config {
	return session.Config{Prefix: j.Prefix, WatchdogTimeout: lease, PlaceTimeout: place}
}

// startChild starts a process on a job.
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

// child is the whole life of such a process.
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
	switch j.Do {
	case "hold":
		return j.hold(ctx, l)
	case "queue":
		return j.queue(ctx, l)
	case "sell":
		return j.sell(ctx, l)
	}
	return fmt.Errorf("no job %q", j.Do)
}

// hold takes the key and keeps it until it is killed.
func (j job) hold(ctx context.Context, l lock.Locker) error {
	held, err := l.Acquire(ctx, key, lock.Options{TTL: j.TTL})
	if err != nil {
		return err
	}
	fmt.Println("holds")
	<-held.Lost()
	fmt.Println("told", context.Cause(held.Context()))
	select {}
}

// queue waits for the key with several goroutines until it is killed.
func (j job) queue(ctx context.Context, l lock.Locker) error {
	errs := make(chan error)
	for range j.Waiters {
		go func() {
			_, err := l.Acquire(ctx, key, lock.Options{Wait: time.Hour})
			errs <- err
		}()
	}
	err := <-errs
	return errors.Join(errors.New("a waiter that was to wait has ended"), err)
}
