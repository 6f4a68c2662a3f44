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

func TestMain(m *testing.M) { testkit.Main(m) }

// renewed is the watchdog's lease in the suite: long enough for a busy machine.
const renewed = 2 * time.Second

const key = "seat"

// open makes a locker, on one server or on a cluster.
func open[C redis.UniversalClient](client C, prefix string) (lock.Locker, error) {
	return reentrant.New(client, reentrant.Config{Prefix: prefix, WatchdogTimeout: renewed})
}

func factory(tb testing.TB) locktest.Subject {
	s := redisstore.Factory("reentrant", open[*redis.Client])(tb)
	s.Renewed, s.Place = renewed, 3*time.Second
	return s
}

func TestConformance(t *testing.T) { locktest.Run(t, factory, promises()) }

// On a cluster the lock is what it is on one server.
func TestConformanceOnCluster(t *testing.T) {
	onCluster := redisstore.ClusterFactory(t, "reentrant", open[redis.UniversalClient])
	locktest.Run(t, func(tb testing.TB) locktest.Subject {
		s := onCluster(tb)
		s.Renewed, s.Place = renewed, 3*time.Second
		return s
	}, locktest.Only(promises(), redisstore.ClusterBehaviours()...))
}

func TestDeclaresKeys(t *testing.T) { redisstore.DeclaresKeys(t, open[*redis.Client], nil) }

func promises() locktest.Promises {
	p := make(locktest.Promises)
	for _, b := range locktest.Behaviours() {
		p[b] = locktest.Holds()
	}
	for _, b := range []locktest.Behaviour{
		locktest.TokensGrow, locktest.TokenStaysOnReentry, locktest.TokensOutliveLock, locktest.LinearizableFenced,
	} {
		p[b] = locktest.Breaks("no tokens")
	}
	return p
}

// start makes a locker on a server with a client of its own, as a process has it.
func start(t *testing.T, server *testkit.RedisServer, config reentrant.Config) *reentrant.Locker {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: server.Addr(), ContextTimeoutEnabled: true, DialerRetries: 1,
		PoolSize: 1000, // after as many failures go-redis dials in the background, also when it is closed
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

// acquire fails the test where the lock cannot be had.
func acquire(ctx context.Context, t *testing.T, l *reentrant.Locker, opts lock.Options) lock.Lease {
	t.Helper()
	lease, err := l.Acquire(ctx, key, opts)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// until polls a condition that something else is about to make true.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("10 s passed without %s", what)
		}
	}
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
