package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/lock/redis/session"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// renewed is the length of renewed leases.
const renewed = 2 * time.Second

// An inner lease whose holder died keeps the lock until its own end and no longer.
func TestAbandonedInnerLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, simulate.NewRedis(t), newReentrant, session.Config{Prefix: "t:", WatchdogTimeout: renewed})
		ctx := lock.WithOwner(t.Context(), "me")
		outer := acquire(ctx, t, l, lock.Options{})
		lock.Abandon(acquire(ctx, t, l, lock.Options{TTL: 100 * time.Millisecond}))
		until(t, "the end of the inner lease", func() bool { return inspect(t, l).Count == 1 })
		fail.NowIf(t, outer.Release(t.Context()))
		fail.Unequal(t, inspect(t, l).Owner, "", "the holder after the outer release")
	})
}

// A renewal that finds the lock gone ends every lease of that owner.
func TestLossOfKeyIsLossOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, prefix := simulate.NewRedis(t), "t:"
		l := start(t, server, newReentrant, session.Config{Prefix: prefix, WatchdogTimeout: renewed})
		ctx := lock.WithOwner(t.Context(), "me")
		watched := acquire(ctx, t, l, lock.Options{})
		fixed := acquire(ctx, t, l, lock.Options{TTL: time.Hour})
		fail.NowIf(t, server.Client(t).Del(t.Context(), redisio.Key(prefix, "reentrant", key, "")).Err())
		told(t, watched, 2*renewed, lock.ErrExpired)
		told(t, fixed, time.Second, lock.ErrExpired)
		fail.Unless(t, fixed.Release(t.Context()), lock.ErrExpired, "Release")
	})
}

func TestCloseTellsEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, prefix := simulate.NewRedis(t), "t:"
		l := start(t, server, newReentrant, session.Config{Prefix: prefix})
		lease := acquire(t.Context(), t, l, lock.Options{})
		waiting := make(chan error, 1)
		go func() {
			_, err := l.Acquire(t.Context(), key, lock.Options{Wait: time.Minute})
			waiting <- err
		}()
		until(t, "a waiter", func() bool { return inspect(t, l).Waiting == 1 })
		fail.NowIf(t, l.Close())
		fail.Unless(t, <-waiting, lock.ErrUnavailable, "the waiter")
		told(t, lease, time.Second, lock.ErrUnavailable)
		fail.Unless(t, fail.Of(l.Acquire(t.Context(), key, lock.Options{Wait: time.Minute})), lock.ErrUnavailable, "Acquire after Close")
		fail.Unless(t, lease.Release(t.Context()), lock.ErrUnavailable, "Release after Close")
	})
}

func told(t *testing.T, lease lock.Lease, within time.Duration, want error) {
	t.Helper()
	select {
	case <-lease.Lost():
	case <-time.After(within):
		t.Fatalf("the holder was not told within %v", within)
	}
	fail.Unless(t, context.Cause(lease.Context()), want, "the holder")
}
