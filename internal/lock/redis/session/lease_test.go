package session_test

import (
	"context"
	"errors"
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
		if state := inspect(t, l); state.Owner != "" {
			t.Errorf("after the outer release: %+v, want a free lock", state)
		}
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
		if err := fixed.Release(t.Context()); !errors.Is(err, lock.ErrExpired) {
			t.Errorf("Release = %v, want ErrExpired", err)
		}
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
