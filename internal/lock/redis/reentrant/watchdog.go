package reentrant

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"seckill/internal/lock"
)

// watchdog watches over every lease of the process with one goroutine: it renews
// those that asked for no fixed lease, all that are due at once, and it tells
// every holder whose lease is about to end. It counts from before the attempt
// that was granted or renewed, so it is never later than the server; and since it
// looks at the deadline first, a process that was stopped and goes on learns what
// it lost before anything is renewed.
type watchdog struct {
	config Config
	renew  func(context.Context, []*lease) []renewal

	mu     sync.Mutex
	due    dueHeap
	wakeAt time.Time     // when the goroutine looks next; zero: not set
	wake   chan struct{} // it should look earlier

	closing context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// watch is the watchdog's part of a lease, guarded by the watchdog's mutex.
type watch struct {
	index   int       // in the heap
	since   time.Time // when the grant was known
	watched bool      // from the grant to the release or the loss
	next    time.Time // when there is something to do: renew, or tell
	until   time.Time // when the holder has to stop
	failure error     // of the last renewal, nil if it succeeded
}

// renewal is the outcome of one: nil, [lock.ErrExpired] or [lock.ErrLost] (the
// lease is over; whole: so is every lease of the same owner), or an error after
// which it may be tried again.
type renewal struct {
	err   error
	whole bool
}

func newWatchdog(config Config, renew func(context.Context, []*lease) []renewal) *watchdog {
	w := &watchdog{config: config, renew: renew, wake: make(chan struct{}, 1)}
	w.closing, w.cancel = context.WithCancel(context.Background())
	w.running.Go(w.run)
	return w
}

// close stops the watchdog and tells every holder that nobody watches any more.
func (w *watchdog) close() {
	w.cancel()
	w.running.Wait()
	w.mu.Lock()
	orphans := append([]*lease(nil), w.due...)
	for _, g := range orphans {
		w.drop(g)
	}
	w.mu.Unlock()
	w.tell(orphans, unwatched())
}

func unwatched() error { return fmt.Errorf("%w: %w", lock.ErrUnavailable, errClosed) }

// watch begins with a lease that ends at until.
func (w *watchdog) watch(g *lease, until time.Time) {
	if !w.add(g, until) {
		w.tell([]*lease{g}, unwatched())
	}
}

// add reports false where the watchdog is closed.
func (w *watchdog) add(g *lease, until time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing.Err() != nil {
		return false
	}
	g.watch = watch{since: time.Now(), watched: true, until: until, next: until}
	if g.renewed {
		g.watch.next = earlier(g.start.Add(w.config.RenewEvery), until)
	}
	heap.Push(&w.due, g)
	if w.wakeAt.IsZero() || g.watch.next.Before(w.wakeAt) {
		w.nudge()
	}
	return true
}

// forget ends the watch: from here on nothing of it has any effect on the lease.
// A renewal already on its way finds the lease gone, or renews what is released
// a moment later.
func (w *watchdog) forget(g *lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(g)
}

func (w *watchdog) drop(g *lease) {
	if g.watch.watched {
		g.watch.watched = false
		heap.Remove(&w.due, g.watch.index)
	}
}

func (w *watchdog) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watchdog) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-w.closing.Done():
			return
		case <-w.wake:
		case <-timer.C:
		}
		over, batch, next := w.look(time.Now())
		for _, g := range over {
			w.tell([]*lease{g}, g.watch.end())
		}
		if len(batch) > 0 {
			w.running.Go(func() { w.attempt(batch) })
		}
		if next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
	}
}

// end is why a lease is over that reached its deadline: it was not to be renewed,
// or could not be, or this process was not awake to do so.
func (s *watch) end() error {
	if s.failure != nil {
		return fmt.Errorf("not renewed in time: %w", s.failure)
	}
	return lock.ErrExpired
}

// look takes out what is over at now, marks what is to be renewed, and says when
// to look again. Leases that are due soon are renewed along with those that are.
func (w *watchdog) look(now time.Time) (over, batch []*lease, next time.Time) {
	soon := now.Add(w.config.RenewEvery / 10)
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.due) > 0 {
		g := w.due[0]
		s := &g.watch
		switch {
		case !s.until.After(now):
			w.drop(g)
			over = append(over, g)
			continue
		case s.next.Before(s.until) && !s.next.After(soon) && (len(batch) > 0 || !s.next.After(now)):
			s.next = s.until // whatever becomes of the renewal, the deadline holds
			heap.Fix(&w.due, 0)
			batch = append(batch, g)
			continue
		}
		next = s.next
		break
	}
	w.wakeAt = next
	return over, batch, next
}

// attempt renews a batch and applies what came of it.
func (w *watchdog) attempt(batch []*lease) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(w.closing, w.config.RetryEvery)
	defer cancel()
	for i, r := range w.renew(ctx, batch) {
		w.apply(batch[i], r, start)
	}
}

func (w *watchdog) apply(g *lease, r renewal, start time.Time) {
	if over := w.update(g, r, start); len(over) > 0 {
		w.tell(over, fmt.Errorf("%w: %q", r.err, g.key))
	}
}

// update applies one outcome and returns the leases that are over by it.
func (w *watchdog) update(g *lease, r renewal, start time.Time) (over []*lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &g.watch
	if !s.watched {
		return nil // released meanwhile
	}
	switch {
	case r.err == nil:
		s.failure = nil
		s.until = start.Add(g.ttl - margin(g.ttl))
		s.next = earlier(start.Add(w.config.RenewEvery), s.until)
		g.held.Renewed(s.until)
	case isOver(r.err):
		return w.takeHold(g, r.whole, start)
	default:
		// Not at once: what failed quickly would fail as quickly again.
		s.failure = r.err
		s.next = earlier(start.Add(w.config.RetryEvery), s.until)
	}
	heap.Fix(&w.due, s.index)
	if s.next.Before(w.wakeAt) {
		w.nudge()
	}
	return nil
}

// takeHold takes out g and, where the whole hold is over, what the same owner had
// of the same key before the renewal that found out was sent. An attempt that was
// under way then may have been granted after it.
func (w *watchdog) takeHold(g *lease, whole bool, start time.Time) []*lease {
	over := []*lease{g}
	if whole {
		for _, other := range w.due {
			if other != g && other.lock == g.lock && other.owner == g.owner && other.watch.since.Before(start) {
				over = append(over, other)
			}
		}
	}
	for _, lost := range over {
		w.drop(lost)
	}
	return over
}

func isOver(err error) bool { return errors.Is(err, lock.ErrExpired) || errors.Is(err, lock.ErrLost) }

func (w *watchdog) tell(over []*lease, cause error) {
	for _, g := range over {
		if g.held.Lose(cause) {
			w.config.Observer.lost(cause)
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
