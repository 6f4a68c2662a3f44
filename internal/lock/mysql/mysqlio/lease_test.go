package mysqlio_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/mysql/mysqlio"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// watched is an attempt for a free key with the test's own check and clean-up.
type watched struct {
	attempt
	check func(ctx context.Context) error
	clear atomic.Pointer[func()]
	freed atomic.Int64
}

func (w *watched) Check(ctx context.Context, _ *mysqlio.Session) error { return w.check(ctx) }

func (w *watched) Clear(context.Context, *mysqlio.Session) {
	if clear := w.clear.Load(); clear != nil {
		(*clear)()
	}
}

func (w *watched) Free(ctx context.Context, s *mysqlio.Session) error {
	w.freed.Add(1)
	return w.attempt.Free(ctx, s)
}

// inBubble holds a key for up to ttl (0: without a limit), the connection of which is checked every second for up to
// 500 ms.
func inBubble(t *testing.T, ttl time.Duration, check func(ctx context.Context) error, fn func(t *testing.T, w *watched, held lock.Lease)) {
	synctest.Test(t, func(t *testing.T) {
		_, db := pool(t)
		w := &watched{attempt: func(ctx context.Context, s *mysqlio.Session) error { return s.Exec(ctx, "DO 1") }, check: check}
		held, err := newLocks(t, db).Acquire(t.Context(), "seat", "me", lock.Options{TTL: ttl}, w)
		fail.NowIf(t, err)
		fn(t, w, held)
	})
}

// When a holder's session ends, another owner can get the key. The holder must have been told before, with the reason
// as far as it is known.
func TestHolderIsToldBeforeItsSessionEnds(t *testing.T) {
	for _, tc := range []struct {
		name  string
		check func(ctx context.Context) error
		after time.Duration
		want  error
	}{
		{"denied", func(context.Context) error { return lock.ErrExpired }, time.Second, lock.ErrExpired},
		{"without an answer", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 1500 * time.Millisecond,
			lock.ErrUnavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, 0, tc.check, func(t *testing.T, w *watched, held lock.Lease) {
				var ended atomic.Bool
				clear := func() { // the session has just ended
					ended.Store(true)
					if held.Context().Err() == nil {
						t.Error("the session ended before the holder was told")
					}
				}
				w.clear.Store(&clear)
				began := time.Now()
				<-held.Lost()
				fail.Unequal(t, time.Since(began), tc.after, "the holder was told after")
				fail.Unless(t, context.Cause(held.Context()), tc.want, "the holder")
				fail.Unless(t, held.Release(t.Context()), lock.ErrExpired, "Release")
				if !ended.Load() {
					t.Error("the session did not end")
				}
			})
		})
	}
}

// A release that cannot wait for the end of a check is finished later.
func TestReleaseDuringCheckIsFinished(t *testing.T) {
	check := func(context.Context) error { simulate.Sleep(time.Minute); return nil } // does not end with its context
	inBubble(t, 0, check, func(t *testing.T, w *watched, held lock.Lease) {
		simulate.Sleep(2 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := held.Release(ctx); !errors.Is(err, lock.ErrUnavailable) || w.freed.Load() != 0 {
			t.Errorf("a release that did not wait gave %v, want ErrUnavailable; freed: %d", err, w.freed.Load())
		}
		simulate.Sleep(time.Minute)
		fail.If(t, held.Release(t.Context()), "the repeated release")
		fail.Unequal(t, w.freed.Load(), 1, "times that the key was freed")
	})
}

// An extension does not keep a caller whose context has ended waiting, however long the check takes. The lock stays
// with its holder.
func TestExtendDuringCheckEndsWithItsContext(t *testing.T) {
	check := func(context.Context) error { simulate.Sleep(10 * time.Second); return nil }
	inBubble(t, time.Minute, check, func(t *testing.T, _ *watched, held lock.Lease) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		if err := held.Extend(ctx, time.Hour); !errors.Is(err, lock.ErrUnavailable) || time.Since(began) != 2*time.Second {
			t.Errorf("Extend = %v after %v, want ErrUnavailable after 2 s", err, time.Since(began))
		}
		fail.If(t, held.Extend(t.Context(), time.Minute), "Extend after the check")
		fail.If(t, held.Release(t.Context()), "Release")
	})
}
