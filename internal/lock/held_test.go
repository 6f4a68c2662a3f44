package lock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// grant counts how often it is released and stopped.
type grant struct {
	released, stopped atomic.Int64
	err               error // of the release
}

func (g *grant) hold(ctx context.Context, until time.Time) *lock.Held {
	return lock.NewHeld(ctx, lock.Grant{
		Key: "seat", Owner: "me", Token: 7, Until: until,
		Release: func(context.Context) error { g.released.Add(1); return g.err },
		Stop:    func() { g.stopped.Add(1) },
	})
}

func (g *grant) mustHave(t *testing.T, released, stopped int64) {
	t.Helper()
	if r, s := g.released.Load(), g.stopped.Load(); r != released || s != stopped {
		t.Errorf("released %d times and stopped %d; want %d and %d", r, s, released, stopped)
	}
}

func isLost(h *lock.Held) bool {
	select {
	case <-h.Lost():
		return true
	default:
		return false
	}
}

func TestHeldReturnsWhatWasGranted(t *testing.T) {
	h := new(grant).hold(t.Context(), time.Time{})
	if h.Key() != "seat" || h.Owner() != "me" || h.Token() != 7 || h.Remaining() != lock.NoExpiry {
		t.Errorf("key %q, owner %q, token %d, remaining %v", h.Key(), h.Owner(), h.Token(), h.Remaining())
	}
	if isLost(h) || h.Context().Err() != nil {
		t.Error("a lease that was just granted has ended")
	}
}

func TestHeldCountsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(grant).hold(t.Context(), time.Now().Add(time.Minute))
		simulate.Sleep(50 * time.Second)
		fail.Unequal(t, h.Remaining(), 10*time.Second, "remain")
		h.Renewed(time.Now().Add(time.Minute))
		simulate.Sleep(61 * time.Second)
		fail.Unequal(t, h.Remaining(), -time.Second, "what remains")
	})
}

func TestHeldIsReleasedOnce(t *testing.T) {
	var g grant
	h := g.hold(t.Context(), time.Time{})
	var given, refused atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			switch err := h.Release(t.Context()); {
			case err == nil:
				given.Add(1)
			case errors.Is(err, lock.ErrNotHeld):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if given.Load() != 1 || refused.Load() != 19 {
		t.Errorf("%d releases succeeded and %d were refused, want 1 and 19", given.Load(), refused.Load())
	}
	g.mustHave(t, 1, 1)
	if isLost(h) || h.Lose(lock.ErrExpired) || isLost(h) {
		t.Error("a released lease was lost")
	}
	fail.Unless(t, context.Cause(h.Context()), lock.ErrReleased, "the cause of the context")
}

// A release with an unknown outcome may be repeated. It stops the background work once.
func TestHeldIsReleasedAgainWhenOutcomeIsUnknown(t *testing.T) {
	g := grant{err: lock.ErrUnavailable}
	h := g.hold(t.Context(), time.Time{})
	for range 2 {
		fail.NowUnless(t, h.Release(t.Context()), lock.ErrUnavailable, "Release")
	}
	g.err = nil
	fail.NowIf(t, h.Release(t.Context()))
	fail.Unless(t, h.Release(t.Context()), lock.ErrNotHeld, "Release")
	g.mustHave(t, 3, 1)
}

func TestHeldSignalsLossOnce(t *testing.T) {
	var g grant
	h := g.hold(t.Context(), time.Time{})
	seen := make(chan error)
	go func() {
		<-h.Lost()
		seen <- context.Cause(h.Context())
	}()
	if !h.Lose(lock.ErrExpired) || h.Lose(lock.ErrLost) {
		t.Error("two losses: want the first one, and only that, to tell the holder")
	}
	fail.Unless(t, <-seen, lock.ErrExpired, "what a reader of Lost found")
	g.err = lock.ErrLost // the store's answer decides
	fail.Unless(t, h.Release(t.Context()), lock.ErrLost, "Release")
	g.mustHave(t, 1, 1)
}

func TestHeldIsAbandoned(t *testing.T) {
	var g grant
	h := g.hold(t.Context(), time.Time{})
	h.Abandon()
	h.Abandon()
	g.mustHave(t, 0, 1)
	fail.Unless(t, h.Release(t.Context()), lock.ErrNotHeld, "Release")
}

func TestHeldEndsWithItsAcquisition(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	h := new(grant).hold(ctx, time.Time{})
	gone := errors.New("the buyer left")
	cancel(gone)
	if cause := context.Cause(h.Context()); !errors.Is(cause, gone) || isLost(h) {
		t.Errorf("cause %v, lost %v; want the caller's cause and no loss", cause, isLost(h))
	}
}

// Release works on a context of its own, for at most ReleaseTimeout.
func TestReleaseOutlivesItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		h := lock.NewHeld(t.Context(), lock.Grant{Release: func(ctx context.Context) error {
			fail.Unequal(t, ctx.Err(), nil, "the context on which the release began")
			<-ctx.Done()
			return ctx.Err()
		}})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		fail.Unless(t, lock.Release(ctx, h), context.DeadlineExceeded, "Release")
		fail.Unequal(t, time.Since(began), lock.ReleaseTimeout, "it was cut short after")
	})
}
