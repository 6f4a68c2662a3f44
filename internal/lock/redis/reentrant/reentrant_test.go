package reentrant_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/redisstore"
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

// open returns a locker, on one server or on a cluster.
func open[C redis.UniversalClient](client C, prefix string) (lock.Locker, error) {
	return reentrant.New(client, reentrant.Config{Prefix: prefix, WatchdogTimeout: renewed})
}

func factory(tb testing.TB) locktest.Subject {
	s := redisstore.Factory("reentrant", open[*redis.Client])(tb)
	s.Renewed, s.DeadWaiterTimeout = renewed, 3*time.Second
	return s
}

func TestConformance(t *testing.T) { locktest.Run(t, factory, locktest.NoTokens()) }

// The lock keeps the same promises on a cluster as on one server.
func TestConformanceOnCluster(t *testing.T) {
	onCluster := redisstore.ClusterFactory(t, "reentrant", open[redis.UniversalClient])
	locktest.Run(t, func(tb testing.TB) locktest.Subject {
		s := onCluster(tb)
		s.Renewed, s.DeadWaiterTimeout = renewed, 3*time.Second
		return s
	}, locktest.Only(locktest.NoTokens(), redisstore.ClusterBehaviours()...))
}

func TestDeclaresKeys(t *testing.T) { redisstore.DeclaresKeys(t, open[*redis.Client], nil) }

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
