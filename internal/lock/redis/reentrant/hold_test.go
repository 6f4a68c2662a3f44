package reentrant_test

import (
	"errors"
	"seckill/internal/simulate"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/lock/redis/reentrant"
)

// The key expires when the last lease ends: not after the sum of them, nor after a default.
func TestLeasesDoNotAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, simulate.NewRedis(t), reentrant.Config{Prefix: "t:"})
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
	})
}

// An inner lease whose holder died keeps the lock until its own end and no longer.
func TestAbandonedInnerLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, simulate.NewRedis(t), reentrant.Config{Prefix: "t:", WatchdogTimeout: renewed})
		ctx := lock.WithOwner(t.Context(), "me")
		outer := acquire(ctx, t, l, lock.Options{})
		lock.Abandon(acquire(ctx, t, l, lock.Options{TTL: 100 * time.Millisecond}))
		until(t, "the end of the inner lease", func() bool { return inspect(t, l).Count == 1 })
		if err := outer.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if state := inspect(t, l); state.Owner != "" {
			t.Errorf("after the outer release: %+v, want a free lock", state)
		}
	})
}

// A renewal that finds the lock gone ends every lease of that owner.
func TestLossOfKeyIsLossOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, prefix := simulate.NewRedis(t), "t:"
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
	})
}

func TestScriptsAreLoadedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simulate.NewRedis(t)
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
	})
}

func TestCloseTellsEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, prefix := simulate.NewRedis(t), "t:"
		l := start(t, server, reentrant.Config{Prefix: prefix})
		lease := acquire(t.Context(), t, l, lock.Options{})
		waiting := make(chan error, 1)
		go func() {
			_, err := l.Acquire(t.Context(), key, lock.Options{Wait: time.Minute})
			waiting <- err
		}()
		until(t, "a waiter", func() bool { return inspect(t, l).Waiting == 1 })
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
	})
}
