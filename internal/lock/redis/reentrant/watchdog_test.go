package reentrant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
)

// server is a Redis as the watchdog sees it: one answer for all renewals. Time is
// that of the synctest bubble.
type server struct {
	mu      sync.Mutex
	answer  renewal
	latency time.Duration
	batches [][]*lease
	at      []time.Duration // since the start
	start   time.Time
}

func (s *server) renew(ctx context.Context, batch []*lease) []renewal {
	s.mu.Lock()
	answer, latency := s.answer, s.latency
	s.batches, s.at = append(s.batches, batch), append(s.at, time.Since(s.start))
	s.mu.Unlock()
	select {
	case <-time.After(latency):
	case <-ctx.Done():
		answer = renewal{err: lock.ErrUnavailable}
	}
	return slices.Repeat([]renewal{answer}, len(batch))
}

func (s *server) answers(r renewal, latency time.Duration) {
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

// bubble runs a test of a watchdog with leases of 30 s, renewals every 10 s and
// retries every second.
func bubble(t *testing.T, test func(t *testing.T, w *watchdog, s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &server{start: time.Now()}
		w := newWatchdog(Config{}.WithDefaults(), s.renew)
		defer w.close()
		test(t, w, s)
	})
}

// grant puts a lease under watch; a ttl of 0 has it renewed.
func grant(t *testing.T, w *watchdog, name string, ttl time.Duration) *lease {
	t.Helper()
	return grantAfter(t, w, name, ttl, time.Now())
}

// grantAfter is grant for an attempt that began earlier.
func grantAfter(t *testing.T, w *watchdog, name string, ttl time.Duration, start time.Time) *lease {
	t.Helper()
	r := &request{key: name, lock: name, owner: "me", lease: "lease:" + name, ttl: ttl}
	if ttl == 0 {
		r.ttl, r.renewed = w.config.WatchdogTimeout, true
	}
	g := &lease{request: r, start: start}
	until := g.start.Add(r.ttl - margin(r.ttl))
	g.held = lock.NewHeld(t.Context(), lock.Grant{
		Key: name, Owner: "me", Until: until,
		Release: func(context.Context) error { return nil },
		Stop:    func() { w.forget(g) },
	})
	w.watch(g, until)
	return g
}

// toldAfter waits for the signal and checks when it came and why.
func toldAfter(t *testing.T, g *lease, low, high time.Duration, want error) {
	t.Helper()
	select {
	case <-g.held.Lost():
	case <-time.After(time.Hour):
		t.Fatal("the holder was never told")
	}
	if after := time.Since(g.start); after < low || after > high {
		t.Errorf("told after %v, want %v to %v", after, low, high)
	}
	if cause := context.Cause(g.held.Context()); !errors.Is(cause, want) {
		t.Errorf("told %v, want %v", cause, want)
	}
}

func mustHold(t *testing.T, g *lease) {
	t.Helper()
	synctest.Wait()
	select {
	case <-g.held.Lost():
		t.Fatalf("after %v the holder was told %v", time.Since(g.start), context.Cause(g.held.Context()))
	default:
	}
}

func TestWatchdogRenewsAtThirds(t *testing.T) {
	bubble(t, func(t *testing.T, w *watchdog, s *server) {
		g := grant(t, w, "seat", 0)
		time.Sleep(5*time.Minute + time.Second)
		mustHold(t, g)
		at, _ := s.renewals()
		if len(at) != 30 || at[0] != 10*time.Second || at[29] != 300*time.Second {
			t.Errorf("renewed at %v, want every 10 s", at)
		}
		if err := g.held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if after, _ := s.renewals(); len(after) != len(at) {
			t.Errorf("%d renewals after the release", len(after)-len(at))
		}
	})
}

func TestWatchdogRenewsTogether(t *testing.T) {
	bubble(t, func(t *testing.T, w *watchdog, s *server) {
		for i := range 100 {
			grant(t, w, fmt.Sprint("seat-", i), 0)
			time.Sleep(5 * time.Millisecond) // all within the slack of a second
		}
		time.Sleep(10 * time.Second)
		if _, sizes := s.renewals(); len(sizes) != 1 || sizes[0] != 100 {
			t.Errorf("renewed in batches of %v, want one of 100", sizes)
		}
	})
}

func TestWatchdogRetriesWhileTimeIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, w *watchdog, s *server) {
		g := grant(t, w, "seat", 0)
		s.answers(renewal{err: lock.ErrUnavailable}, 0)
		time.Sleep(25 * time.Second)
		s.answers(renewal{}, 0)
		time.Sleep(20 * time.Second)
		mustHold(t, g)
		at, _ := s.renewals()
		if at[1]-at[0] != time.Second {
			t.Errorf("tried at %v, want a retry after a second", at)
		}
	})
}

func TestWatchdogTellsBeforeTheEnd(t *testing.T) {
	for name, latency := range map[string]time.Duration{"refused": 0, "hangs": time.Hour} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *watchdog, s *server) {
				g := grant(t, w, "seat", 0)
				s.answers(renewal{err: lock.ErrUnavailable}, latency)
				toldAfter(t, g, 29*time.Second, 30*time.Second-1, lock.ErrUnavailable)
			})
		})
	}
}

// A renewal counts from when it was sent: one that took long to be answered gives
// less time, not more.
func TestWatchdogCountsFromTheAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, w *watchdog, s *server) {
		g := grant(t, w, "seat", 0)
		s.answers(renewal{}, 900*time.Millisecond)
		time.Sleep(11 * time.Second)
		if left := g.held.Remaining(); left > 29*time.Second || left < 28*time.Second {
			t.Errorf("%v remain a second after a renewal was sent, want a little less than 29 s", left)
		}
		s.answers(renewal{err: lock.ErrUnavailable}, 0)
		toldAfter(t, g, 39*time.Second, 40*time.Second, lock.ErrUnavailable)
	})
}

func TestWatchdogTellsEndOfFixedLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *watchdog, s *server) {
		toldAfter(t, grant(t, w, "seat", time.Second), 980*time.Millisecond, time.Second-1, lock.ErrExpired)
		if at, _ := s.renewals(); len(at) > 0 {
			t.Errorf("a fixed lease was renewed at %v", at)
		}
	})
}

func TestWatchdogTellsLoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *watchdog, s *server) {
		g, sibling, other := grant(t, w, "seat", 0), grant(t, w, "seat", time.Hour), grant(t, w, "table", time.Hour)
		s.answers(renewal{err: lock.ErrLost, whole: true}, 0)
		toldAfter(t, g, 10*time.Second, 10*time.Second, lock.ErrLost)
		toldAfter(t, sibling, 10*time.Second, 10*time.Second, lock.ErrLost)
		mustHold(t, other)
	})
}

// What was granted while the renewal that found the loss was under way is a lock
// of its own.
func TestWatchdogSparesLaterLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *watchdog, s *server) {
		g := grant(t, w, "seat", 0)
		s.answers(renewal{err: lock.ErrExpired, whole: true}, 500*time.Millisecond)
		time.Sleep(10*time.Second + 100*time.Millisecond)
		later := grant(t, w, "seat", time.Hour)
		toldAfter(t, g, 10*time.Second, 11*time.Second, lock.ErrExpired)
		mustHold(t, later)
	})
}

// An attempt that was already on its way when that renewal was sent may have been
// granted after it: what counts is when the grant was known.
func TestWatchdogSparesLeaseOfEarlierAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, w *watchdog, s *server) {
		g := grant(t, w, "seat", 0)
		s.answers(renewal{err: lock.ErrExpired, whole: true}, 500*time.Millisecond)
		time.Sleep(9 * time.Second)
		attempt := time.Now()
		time.Sleep(time.Second + 100*time.Millisecond) // the renewal is under way
		later := grantAfter(t, w, "seat", time.Hour, attempt)
		toldAfter(t, g, 10*time.Second, 11*time.Second, lock.ErrExpired)
		mustHold(t, later)
	})
}

// A process that did not run when its lease ended is told before it renews.
func TestWatchdogLooksAtTheDeadlineFirst(t *testing.T) {
	w := &watchdog{config: Config{}.WithDefaults(), wake: make(chan struct{}, 1), closing: t.Context()}
	g := grant(t, w, "seat", 0)
	over, batch, _ := w.look(g.start.Add(time.Minute))
	if len(over) != 1 || len(batch) != 0 {
		t.Errorf("after a pause: %d over, %d to renew; want the lease to be over", len(over), len(batch))
	}
}

// An answer that comes after the release changes nothing.
func TestWatchdogForgets(t *testing.T) {
	bubble(t, func(t *testing.T, w *watchdog, s *server) {
		g := grant(t, w, "seat", 0)
		s.answers(renewal{err: lock.ErrExpired, whole: true}, 500*time.Millisecond)
		time.Sleep(10*time.Second + 100*time.Millisecond)
		if err := g.held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		mustHold(t, g)
		if len(w.due) > 0 {
			t.Errorf("%d leases are still watched", len(w.due))
		}
	})
}

// A lease that is granted while the locker closes is nobody's to renew.
func TestWatchdogRefusesWhenClosed(t *testing.T) {
	bubble(t, func(t *testing.T, w *watchdog, s *server) {
		w.close()
		toldAfter(t, grant(t, w, "seat", 0), 0, 0, lock.ErrUnavailable)
	})
}
