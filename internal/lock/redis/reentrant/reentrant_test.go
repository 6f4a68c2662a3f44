package reentrant_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.ExamplesNeed("redis-server")
	testkit.Main(m)
}

// renewed is the length of renewed leases in the suite: long enough for a busy machine.
const renewed = 2 * time.Second

const key = "seat"

// start returns a locker with a client of its own, like a process of its own.
func start(t *testing.T, server *testkit.RedisServer, config reentrant.Config) *reentrant.Locker {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: server.Addr(), ContextTimeoutEnabled: true, DialerRetries: 1,
		PoolSize: 1000, // after that many failures go-redis dials in the background, even when it is closed
	})
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
