package reentrant_test

import (
	"context"
	"errors"
	"seckill/internal/simulate"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m)
}

// renewed is the length of renewed leases in the suite: long enough for a busy machine.
const renewed = 2 * time.Second

const key = "seat"

// bubble runs a subtest in virtual time.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// until waits until something is so.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// withoutDeadlines returns a client that does not end its commands with their context.
func withoutDeadlines(t *testing.T, server *simulate.Redis) *redis.Client {
	t.Helper()
	options := server.Options()
	options.ContextTimeoutEnabled = false
	return redis.NewClient(options)
}

// start returns a locker with a client of its own, like a process of its own.
func start(t *testing.T, server *simulate.Redis, config reentrant.Config) *reentrant.Locker {
	t.Helper()
	client := server.Client(t)
	return startOn(t, client, config)
}

func startOn(t *testing.T, client redis.UniversalClient, config reentrant.Config) *reentrant.Locker {
	t.Helper()
	t.Cleanup(func() { _ = client.Close() })
	l, err := reentrant.New(client, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// acquire fails the test where the acquisition fails.
func acquire(ctx context.Context, t *testing.T, l *reentrant.Locker, opts lock.Options) lock.Lease {
	t.Helper()
	lease, err := l.Acquire(ctx, key, opts)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func inspect(t *testing.T, l *reentrant.Locker) lock.State {
	t.Helper()
	state, err := l.Inspect(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func told(t *testing.T, lease lock.Lease, within time.Duration, want error) {
	t.Helper()
	select {
	case <-lease.Lost():
	case <-time.After(within):
		t.Fatalf("the holder was not told within %v", within)
	}
	if cause := context.Cause(lease.Context()); !errors.Is(cause, want) {
		t.Errorf("the holder was told %v, want %v", cause, want)
	}
}
