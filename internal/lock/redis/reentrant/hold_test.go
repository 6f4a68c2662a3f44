package reentrant_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/testkit"
)

func TestHoldCount(t *testing.T) {
	server, prefix := testkit.Redis(t), testkit.KeyPrefix(t)
	l := start(t, server, reentrant.Config{Prefix: prefix, WatchdogTimeout: renewed})
	ctx := lock.WithOwner(t.Context(), "me")
	count := func(want int) {
		t.Helper()
		if got := inspect(t, l); got.Count != want || (want > 0) != (got.Owner == "me") {
			t.Fatalf("Inspect = %+v, want a count of %d", got, want)
		}
	}
	count(0)
	outer := acquire(ctx, t, l, lock.Options{})
	count(1)
	inner := acquire(ctx, t, l, lock.Options{})
	count(2)
	if err := inner.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	count(1)
	time.Sleep(renewed + renewed/3) // the watchdog must continue for the other lease
	count(1)
	if err := outer.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	count(0)
	if err := outer.Release(t.Context()); !errors.Is(err, lock.ErrNotHeld) {
		t.Errorf("a second Release = %v, want ErrNotHeld", err)
	}
}

// The key expires when the last lease ends: not after the sum of them, nor after a default.
func TestLeasesDoNotAddUp(t *testing.T) {
	l := start(t, testkit.Redis(t), reentrant.Config{Prefix: testkit.KeyPrefix(t)})
	ctx := lock.WithOwner(t.Context(), "me")
	between := func(low, high time.Duration) {
		t.Helper()
		if ttl := inspect(t, l).TTL; ttl < low || ttl > high {
			t.Fatalf("the lease in Redis is %v, want %v to %v", ttl, low, high)
		}
	}
	minute := acquire(ctx, t, l, lock.Options{TTL: time.Minute})
	short := acquire(ctx, t, l, lock.Options{TTL: 10 * time.Second})
	between(50*time.Second, time.Minute)
	long := acquire(ctx, t, l, lock.Options{TTL: 10 * time.Minute})
	between(9*time.Minute, 10*time.Minute)
	for _, lease := range []lock.Lease{long, short} {
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		between(50*time.Second, time.Minute)
	}
	if err := minute.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// An inner lease whose holder died keeps the lock until its own end and no longer.
func TestAbandonedInnerLease(t *testing.T) {
	l := start(t, testkit.Redis(t), reentrant.Config{Prefix: testkit.KeyPrefix(t), WatchdogTimeout: renewed})
	ctx := lock.WithOwner(t.Context(), "me")
	outer := acquire(ctx, t, l, lock.Options{})
	lock.Abandon(acquire(ctx, t, l, lock.Options{TTL: 100 * time.Millisecond}))
	testkit.Until(t, "the end of the inner lease", func() bool { return inspect(t, l).Count == 1 })
	if err := outer.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if state := inspect(t, l); state.Owner != "" {
		t.Errorf("after the outer release: %+v, want a free lock", state)
	}
}

// A renewal that finds the lock gone ends every lease of that owner.
func TestLossOfKeyIsLossOfAll(t *testing.T) {
	server, prefix := testkit.Redis(t), testkit.KeyPrefix(t)
	l := start(t, server, reentrant.Config{Prefix: prefix, WatchdogTimeout: renewed})
	ctx := lock.WithOwner(t.Context(), "me")
	watched := acquire(ctx, t, l, lock.Options{})
	fixed := acquire(ctx, t, l, lock.Options{TTL: time.Hour})
	if err := server.Client(t).Del(t.Context(), redisio.Key(prefix, "reentrant", key, "")).Err(); err != nil {
		t.Fatal(err)
	}
	told(t, watched, 2*renewed, lock.ErrExpired)
	told(t, fixed, time.Second, lock.ErrExpired)
	if err := fixed.Release(t.Context()); !errors.Is(err, lock.ErrExpired) {
		t.Errorf("Release = %v, want ErrExpired", err)
	}
}

func TestScriptsAreLoadedAgain(t *testing.T) {
	server := testkit.NewRedis(t)
	l := start(t, server, reentrant.Config{WatchdogTimeout: renewed})
	client := server.Client(t)
	lease := acquire(t.Context(), t, l, lock.Options{})
	for end := time.Now().Add(renewed + renewed/3); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release = %v, want nil: renewals find their script again", err)
	}
}

// A holder keeps its renewals while other goroutines are busy.
func TestPairsDoNotDisturbRenewal(t *testing.T) {
	const pairs = 500
	l := start(t, testkit.Redis(t), reentrant.Config{Prefix: testkit.KeyPrefix(t), WatchdogTimeout: renewed})
	ctx := lock.WithOwner(t.Context(), "me")
	lease := acquire(ctx, t, l, lock.Options{})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range pairs {
				again, err := l.Acquire(ctx, key, lock.Options{})
				if err != nil {
					t.Error(err)
					return
				}
				if err := again.Release(ctx); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	time.Sleep(renewed)
	select {
	case <-lease.Lost():
		t.Errorf("the holder was told %v", context.Cause(lease.Context()))
	default:
	}
	if state := inspect(t, l); state.Count != 1 {
		t.Errorf("Inspect = %+v, want a count of 1", state)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCloseTellsEverybody(t *testing.T) {
	server, prefix := testkit.Redis(t), testkit.KeyPrefix(t)
	l := start(t, server, reentrant.Config{Prefix: prefix})
	lease := acquire(t.Context(), t, l, lock.Options{})
	waiting := make(chan error, 1)
	go func() {
		_, err := l.Acquire(t.Context(), key, lock.Options{Wait: time.Minute})
		waiting <- err
	}()
	testkit.Until(t, "a waiter", func() bool { return inspect(t, l).Waiting == 1 })
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("the waiter got %v, want ErrUnavailable", err)
	}
	told(t, lease, time.Second, lock.ErrUnavailable)
	if _, err := l.Acquire(t.Context(), key, lock.Options{Wait: time.Minute}); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("Acquire after Close = %v, want ErrUnavailable", err)
	}
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("Release after Close = %v, want ErrUnavailable", err)
	}
}
