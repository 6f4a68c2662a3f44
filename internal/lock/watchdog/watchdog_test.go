package watchdog

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// server is a store as the watchdog sees it: one answer for all renewals. Time is that of the synctest bubble.
type server struct {
	mu      sync.Mutex
	answer  Outcome
	latency time.Duration
	batches [][]*Entry[string]
	at      []time.Duration // since the start
	start   time.Time
}

func (s *server) renew(ctx context.Context, batch []*Entry[string]) []Outcome {
	s.mu.Lock()
	answer, latency := s.answer, s.latency
	s.batches, s.at = append(s.batches, batch), append(s.at, time.Since(s.start))
	s.mu.Unlock()
	if latency > 0 { // timers of zero that run at the same time in one bubble crash the race detector (Go 1.26)
		select {
		case <-time.After(latency):
		case <-ctx.Done():
			answer = Outcome{Err: lock.ErrUnavailable}
		}
	}
	return slices.Repeat([]Outcome{answer}, len(batch))
}

func (s *server) answers(r Outcome, latency time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.latency = r, latency
}

func (s *server) renewals() (at []time.Duration, sizes []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, batch := range s.batches {
		sizes = append(sizes, len(batch))
	}
	return slices.Clone(s.at), sizes
}

// config renews leases of 30 s.
var config = Config{RenewEvery: 10 * time.Second, RetryEvery: time.Second}

// bubble runs a test of a watchdog with leases of 30 s, renewals every 10 s and retries every second.
func bubble(t *testing.T, test func(t *testing.T, w *Watchdog[string], s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &server{start: time.Now()}
		w := New(config, s.renew, func(a, b string) bool { return a == b })
		defer w.Close()
		test(t, w, s)
	})
}

// grant has a lease watched; with a ttl of 0 it is renewed.
func grant(t *testing.T, w *Watchdog[string], name string, ttl time.Duration) *Entry[string] {
	t.Helper()
	return grantAfter(t, w, name, ttl, time.Now())
}

// grantAfter is grant for an attempt that began earlier.
func grantAfter(t *testing.T, w *Watchdog[string], name string, ttl time.Duration, start time.Time) *Entry[string] {
	t.Helper()
	e := &Entry[string]{Start: start, TTL: ttl, Value: name}
	if ttl == 0 {
		e.TTL, e.AutoRenew = 30*time.Second, true
	}
	e.Held = lock.NewHeld(t.Context(), lock.Grant{
		Key: name, Owner: "me", Until: Until(e.Start, e.TTL),
		Release: func(context.Context) error { return nil },
		Stop:    func() { w.Unwatch(e) },
	})
	w.Watch(e)
	return e
}

// toldAfter waits for the signal and checks when it came and why.
func toldAfter(t *testing.T, e *Entry[string], low, high time.Duration, want error) {
	t.Helper()
	select {
	case <-e.Held.Lost():
	case <-time.After(time.Hour):
		t.Fatal("the holder was never told")
	}
	if after := time.Since(e.Start); after < low || after > high {
		t.Errorf("told after %v, want %v to %v", after, low, high)
	}
	fail.Unless(t, context.Cause(e.Held.Context()), want)
}

func mustHold(t *testing.T, e *Entry[string]) {
	t.Helper()
	synctest.Wait()
	select {
	case <-e.Held.Lost():
		t.Fatalf("after %v the holder was told %v", time.Since(e.Start), context.Cause(e.Held.Context()))
	default:
	}
}

func TestRenewsAtThirds(t *testing.T) {
	bubble(t, func(t *testing.T, w *Watchdog[string], s *server) {
		e := grant(t, w, "seat", 0)
		simulate.Sleep(5*time.Minute + time.Second)
		mustHold(t, e)
		at, _ := s.renewals()
		if len(at) != 30 || at[0] != 10*time.Second || at[29] != 300*time.Second {
			t.Errorf("renewed at %v, want every 10 s", at)
		}
		fail.NowIf(t, e.Held.Release(t.Context()))
		simulate.Sleep(time.Hour)
		if after, _ := s.renewals(); len(after) != len(at) {
			t.Errorf("%d renewals after the release", len(after)-len(at))
		}
	})
}

func TestRenewsTogether(t *testing.T) {
	bubble(t, func(t *testing.T, w *Watchdog[string], s *server) {
		for i := range 100 {
			grant(t, w, fmt.Sprint("seat-", i), 0)
			simulate.Sleep(5 * time.Millisecond) // all within the slack of a second
		}
		simulate.Sleep(10 * time.Second)
		if _, sizes := s.renewals(); len(sizes) != 1 || sizes[0] != 100 {
			t.Errorf("renewed in batches of %v, want one of 100", sizes)
		}
	})
}

func TestRetriesWhileTimeIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, w *Watchdog[string], s *server) {
		e := grant(t, w, "seat", 0)
		s.answers(Outcome{Err: lock.ErrUnavailable}, 0)
		simulate.Sleep(25 * time.Second)
		s.answers(Outcome{}, 0)
		simulate.Sleep(20 * time.Second)
		mustHold(t, e)
		at, _ := s.renewals()
		if at[1]-at[0] != time.Second {
			t.Errorf("tried at %v, want a retry after a second", at)
		}
	})
}

// The first lease of a handover is hardly longer than the pause between two tries: a first renewal that fails is tried
// again sooner, and only a few times.
func TestRetriesFirstRenewalAfterHandover(t *testing.T) {
	const first = 1500 * time.Millisecond
	handOver := func(t *testing.T, w *Watchdog[string]) *Entry[string] {
		t.Helper()
		e := &Entry[string]{Start: time.Now(), TTL: 30 * time.Second, FirstTTL: first, AutoRenew: true, Value: "seat"}
		e.Held = lock.NewHeld(t.Context(), lock.Grant{Key: "seat", Owner: "me", Until: Until(e.Start, first)})
		w.Watch(e)
		return e
	}
	t.Run("fails once", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *Watchdog[string], s *server) {
			s.answers(Outcome{Err: lock.ErrUnavailable}, 0)
			e := handOver(t, w)
			simulate.Sleep(first / 2)
			s.answers(Outcome{}, 0)
			simulate.Sleep(time.Minute)
			mustHold(t, e)
		})
	})
	t.Run("fails always", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *Watchdog[string], s *server) {
			s.answers(Outcome{Err: lock.ErrUnavailable}, 0)
			toldAfter(t, handOver(t, w), first-Margin(first), first-1, lock.ErrUnavailable)
			if at, _ := s.renewals(); len(at) < 2 || len(at) > 5 {
				t.Errorf("tried at %v, want a few tries", at)
			}
		})
	})
}

func TestTellsBeforeTheEnd(t *testing.T) {
	for name, latency := range map[string]time.Duration{"refused": 0, "hangs": time.Hour} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *Watchdog[string], s *server) {
				e := grant(t, w, "seat", 0)
				s.answers(Outcome{Err: lock.ErrUnavailable}, latency)
				toldAfter(t, e, 29*time.Second, 30*time.Second-1, lock.ErrUnavailable)
			})
		})
	}
}

// A renewal counts from when it was sent: a slow reply leaves less time, not more.
func TestCountsFromTheAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, w *Watchdog[string], s *server) {
		e := grant(t, w, "seat", 0)
		s.answers(Outcome{}, 900*time.Millisecond)
		simulate.Sleep(11 * time.Second)
		if left := e.Held.Remaining(); left > 29*time.Second || left < 28*time.Second {
			t.Errorf("%v remain a second after a renewal was sent, want a little less than 29 s", left)
		}
		s.answers(Outcome{Err: lock.ErrUnavailable}, 0)
		toldAfter(t, e, 39*time.Second, 40*time.Second, lock.ErrUnavailable)
	})
}

func TestTellsEndOfFixedLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *Watchdog[string], s *server) {
		toldAfter(t, grant(t, w, "seat", time.Second), 980*time.Millisecond, time.Second-1, lock.ErrExpired)
		if at, _ := s.renewals(); len(at) > 0 {
			t.Errorf("a fixed lease was renewed at %v", at)
		}
	})
}

func TestTellsLoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *Watchdog[string], s *server) {
		e, sibling, other := grant(t, w, "seat", 0), grant(t, w, "seat", time.Hour), grant(t, w, "table", time.Hour)
		s.answers(Outcome{Err: lock.ErrLost, AllOfHolder: true}, 0)
		toldAfter(t, e, 10*time.Second, 10*time.Second, lock.ErrLost)
		toldAfter(t, sibling, 10*time.Second, 10*time.Second, lock.ErrLost)
		mustHold(t, other)
	})
}

// A renewal that finds the loss does not end a lease that was granted while it was under way, even if the attempt began
// before: the time that counts is when the grant was known.
func TestSparesLeaseOfEarlierAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, w *Watchdog[string], s *server) {
		e := grant(t, w, "seat", 0)
		s.answers(Outcome{Err: lock.ErrExpired, AllOfHolder: true}, 500*time.Millisecond)
		simulate.Sleep(9 * time.Second)
		attempt := time.Now()
		simulate.Sleep(time.Second + 100*time.Millisecond) // the renewal is under way
		later := grantAfter(t, w, "seat", time.Hour, attempt)
		toldAfter(t, e, 10*time.Second, 11*time.Second, lock.ErrExpired)
		mustHold(t, later)
	})
}

// A process that did not run when its lease ended is told before it renews.
func TestLooksAtTheDeadlineFirst(t *testing.T) {
	w := &Watchdog[string]{config: config, wake: make(chan struct{}, 1), closing: t.Context()}
	e := grant(t, w, "seat", 0)
	over, batch, _ := w.takeDue(e.Start.Add(time.Minute))
	if len(over) != 1 || len(batch) != 0 {
		t.Errorf("after a pause: %d over, %d to renew; want the lease to be over", len(over), len(batch))
	}
}

// A reply that arrives after the release changes nothing.
func TestForgets(t *testing.T) {
	bubble(t, func(t *testing.T, w *Watchdog[string], s *server) {
		e := grant(t, w, "seat", 0)
		s.answers(Outcome{Err: lock.ErrExpired, AllOfHolder: true}, 500*time.Millisecond)
		simulate.Sleep(10*time.Second + 100*time.Millisecond)
		fail.NowIf(t, e.Held.Release(t.Context()))
		simulate.Sleep(time.Minute)
		mustHold(t, e)
		if len(w.due) > 0 {
			t.Errorf("%d leases are still watched", len(w.due))
		}
	})
}

// A lease that is granted while the watchdog closes is not renewed, and its holder is told.
func TestRefusesWhenClosed(t *testing.T) {
	bubble(t, func(t *testing.T, w *Watchdog[string], s *server) {
		w.Close()
		toldAfter(t, grant(t, w, "seat", 0), 0, 0, lock.ErrUnavailable)
	})
}
