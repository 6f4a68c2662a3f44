package lock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// granting is a locker that grants every acquisition after a second. A test sets the errors of the acquisition and of
// the release.
type granting struct {
	err, release error
	leases       []*lock.Held
}

func (g *granting) Acquire(ctx context.Context, key string, _ lock.Options) (lock.Lease, error) {
	simulate.Sleep(time.Second)
	if g.err != nil {
		return nil, g.err
	}
	held := lock.NewHeld(ctx, lock.Grant{
		Key: key, TTL: time.Second,
		Release: func(context.Context) error { return g.release },
		Extend: func(_ context.Context, ttl time.Duration) (time.Time, error) {
			return time.Now().Add(ttl), g.err
		},
	})
	g.leases = append(g.leases, held)
	return held, nil
}

// heard records the calls of an observer.
type heard struct {
	acquired, refused, released []time.Duration
	errs, lost                  []error
}

func (h *heard) observer() lock.Observer {
	return lock.Observer{
		Acquired: func(d time.Duration) { h.acquired = append(h.acquired, d) },
		Refused:  func(d time.Duration, err error) { h.refused, h.errs = append(h.refused, d), append(h.errs, err) },
		Released: func(d time.Duration, err error) { h.released, h.errs = append(h.released, d), append(h.errs, err) },
		Lost:     func(cause error) { h.lost = append(h.lost, cause) },
	}
}

func TestObserve(t *testing.T) {
	acquire := func(t *testing.T, ctx context.Context, l lock.Locker) lock.Lease {
		t.Helper()
		lease, err := l.Acquire(ctx, "seat", lock.Options{})
		fail.NowIf(t, err)
		return lease
	}
	tests := map[string]func(t *testing.T, g *granting, h *heard, l lock.Locker){
		"acquired and released": func(t *testing.T, _ *granting, h *heard, l lock.Locker) {
			lease := acquire(t, t.Context(), l)
			simulate.Sleep(2 * time.Second)
			fail.If(t, lease.Release(t.Context()))
			fail.Unless(t, lease.Release(t.Context()), lock.ErrNotHeld, "a second release")
			want := heard{acquired: []time.Duration{time.Second}, released: []time.Duration{2 * time.Second}}
			if !slices.Equal(h.acquired, want.acquired) || !slices.Equal(h.released, want.released) || len(h.lost) != 0 {
				t.Errorf("heard %+v", h)
			}
		},
		"refused": func(t *testing.T, g *granting, h *heard, l lock.Locker) {
			g.err = lock.ErrUnavailable
			fail.Unless(t, fail.Of(l.Acquire(t.Context(), "seat", lock.Options{})), g.err)
			if len(h.refused) != 1 || !errors.Is(h.errs[0], g.err) {
				t.Errorf("heard %+v", h)
			}
		},
		"the holder is told, and then releases": func(t *testing.T, g *granting, h *heard, l lock.Locker) {
			lease := acquire(t, t.Context(), l)
			g.leases[0].Lose(lock.ErrLost)
			synctest.Wait()
			g.release = lock.ErrLost
			fail.Unless(t, lease.Release(t.Context()), lock.ErrLost)
			if len(h.lost) != 1 || !errors.Is(h.lost[0], lock.ErrLost) {
				t.Errorf("losses = %v, want one", h.lost)
			}
		},
		"the holder is not told, and the release finds out": func(t *testing.T, g *granting, h *heard, l lock.Locker) {
			lease := acquire(t, t.Context(), l)
			g.release = lock.ErrExpired
			_ = lease.Release(t.Context())
			if len(h.lost) != 1 || !errors.Is(h.lost[0], lock.ErrExpired) {
				t.Errorf("losses = %v, want one", h.lost)
			}
		},
		"the request ends and the lease continues": func(t *testing.T, _ *granting, h *heard, l lock.Locker) {
			ctx, cancel := context.WithCancel(t.Context())
			lease := acquire(t, ctx, l)
			cancel()
			synctest.Wait()
			fail.If(t, lock.Release(ctx, lease))
			fail.Unequal(t, len(h.lost), 0, "losses")
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, h := &granting{}, &heard{}
				test(t, g, h, lock.Observe(g, h.observer()))
			})
		})
	}
}

// A decorated locker is what the locker beneath is.
func TestDecorate(t *testing.T) {
	for name, l := range map[string]lock.Locker{
		"acquires only": &granting{},
		"inspects": struct {
			*granting
			lock.Inspector
		}{},
		"forces": struct {
			*granting
			lock.ForceReleaser
		}{},
		"both": struct {
			*granting
			lock.Inspector
			lock.ForceReleaser
		}{},
	} {
		d := lock.Decorate(l, (&granting{}).Acquire)
		_, inspects := l.(lock.Inspector)
		_, forces := l.(lock.ForceReleaser)
		_, i := d.(lock.Inspector)
		_, f := d.(lock.ForceReleaser)
		if i != inspects || f != forces {
			t.Errorf("%s: inspects %v, forces %v", name, i, f)
		}
	}
}

func TestExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &granting{}
		acquire := func() *lock.Held {
			t.Helper()
			g.err = nil
			fail.NowIf(t, fail.Of(g.Acquire(t.Context(), "seat", lock.Options{})))
			return g.leases[len(g.leases)-1]
		}
		h := acquire()
		for ttl, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, 0: time.Second} {
			if err := h.Extend(t.Context(), ttl); err != nil || h.Remaining() != want {
				t.Errorf("Extend(%v) = %v, and %v remain; want %v", ttl, err, h.Remaining(), want)
			}
		}
		for _, ttl := range []time.Duration{-1, 1, 2 * time.Hour} {
			fail.Unless(t, h.Extend(t.Context(), ttl), lock.ErrInvalid, "Extend(%v)", ttl)
		}
		g.err = lock.ErrUnavailable
		if err := h.Extend(t.Context(), time.Hour); !errors.Is(err, lock.ErrUnavailable) || h.Remaining() > time.Minute {
			t.Errorf("Extend without a server = %v, and %v remain", err, h.Remaining())
		}
		g.err = lock.ErrLost
		fail.Unless(t, h.Extend(t.Context(), 0), lock.ErrLost, "Extend of a lost lease")
		select {
		case <-h.Lost():
		default:
			t.Error("an Extend that found the lease lost did not signal it")
		}
		released := acquire()
		_ = released.Release(t.Context())
		fail.Unless(t, released.Extend(t.Context(), 0), lock.ErrNotHeld, "Extend after the release")
		fixed := lock.NewHeld(t.Context(), lock.Grant{Key: "seat"})
		fail.Unless(t, fixed.Extend(t.Context(), 0), errors.ErrUnsupported, "Extend where there is none")
	})
}
