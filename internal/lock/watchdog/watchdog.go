package watchdog

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"seckill/internal/lock"
)

var errClosed = errors.New("the locker is closed")

// Config says how leases are renewed.
type Config struct {
	// RenewEvery is how often a lease is renewed: a third of it is usual.
	RenewEvery time.Duration
	// RetryEvery is how long one attempt to renew may take, and how soon after its
	// start a failed one is repeated.
	RetryEvery time.Duration
	// Lost is told of each holder that was told. May be nil.
	Lost func(cause error)
}

// Watchdog watches over leases of one kind. T is what the mechanism knows of one.
type Watchdog[T any] struct {
	config   Config
	renew    func(context.Context, []*Lease[T]) []Outcome
	sameHold func(a, b T) bool

	mu     sync.Mutex
	due    dueHeap[T]
	wakeAt time.Time     // when the goroutine looks next; zero: not set
	wake   chan struct{} // it should look earlier

	closing context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Lease is a lease under watch. The exported fields are set before
// [Watchdog.Watch] and then left alone.
type Lease[T any] struct {
	// Held is told when the lease is over.
	Held *lock.Held
	// Start is when the attempt began that was granted.
	Start time.Time
	// TTL is the lease; Renewed says that it is to be renewed by that length.
	TTL     time.Duration
	Renewed bool
	// First is how long the lease runs before its first renewal, where that is less
	// than TTL. 0: TTL.
	First time.Duration
	// Of is the mechanism's own.
	Of T

	// Guarded by the watchdog's mutex.
	index   int       // in the heap
	since   time.Time // when the grant was known
	watched bool      // from the grant to the release or the loss
	next    time.Time // when there is something to do: renew, or tell
	until   time.Time // when the holder has to stop
	failure error     // of the last renewal, nil if it succeeded
}

// Outcome is what came of one renewal: a nil Err, [lock.ErrExpired] or
// [lock.ErrLost] (the lease is over; Whole: so is every lease of the same hold),
// or an error after which it may be tried again.
type Outcome struct {
	Err   error
	Whole bool
}

// New starts a watchdog. renew renews a batch and returns an outcome for each, in
// order, before its context ends. sameHold says whether two leases are lost
// together, as those of one owner on one key are; nil: none are.
func New[T any](config Config, renew func(context.Context, []*Lease[T]) []Outcome, sameHold func(a, b T) bool) *Watchdog[T] {
	if sameHold == nil {
		sameHold = func(T, T) bool { return false }
	}
	w := &Watchdog[T]{config: config, renew: renew, sameHold: sameHold, wake: make(chan struct{}, 1)}
	w.closing, w.cancel = context.WithCancel(context.Background())
	w.running.Go(w.run)
	return w
}

// Close stops the watchdog and tells every holder that nobody watches any more.
func (w *Watchdog[T]) Close() {
	w.cancel()
	w.running.Wait()
	w.mu.Lock()
	orphans := append([]*Lease[T](nil), w.due...)
	for _, g := range orphans {
		w.drop(g)
	}
	w.mu.Unlock()
	w.tell(orphans, unwatched())
}

func unwatched() error { return fmt.Errorf("%w: %w", lock.ErrUnavailable, errClosed) }

// Until is when a lease of ttl that was asked for at start ends for its holder:
// earlier than for the store, by [Margin].
func Until(start time.Time, ttl time.Duration) time.Time { return start.Add(ttl - Margin(ttl)) }

// Margin is by how much a lease ends earlier for its holder than for the store.
// The store counts from when the command arrives, which is later than the start of
// the attempt; the margin covers clocks that do not run at one speed and a timer
// that is late. 2 %, at most 200 ms.
func Margin(ttl time.Duration) time.Duration { return min(ttl/50, 200*time.Millisecond) }

// Watch begins with a lease that was just granted.
func (w *Watchdog[T]) Watch(g *Lease[T]) {
	if !w.add(g, Until(g.Start, cmp.Or(g.First, g.TTL))) {
		w.tell([]*Lease[T]{g}, unwatched())
	}
}

// add reports false where the watchdog is closed.
func (w *Watchdog[T]) add(g *Lease[T], until time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing.Err() != nil {
		return false
	}
	g.since, g.watched, g.until, g.next = time.Now(), true, until, until
	if g.Renewed {
		g.next = earlier(g.Start.Add(w.config.RenewEvery), until)
		if g.First != 0 {
			g.next = earlier(g.next, g.since.Add(until.Sub(g.since)/3))
		}
	}
	heap.Push(&w.due, g)
	if w.wakeAt.IsZero() || g.next.Before(w.wakeAt) {
		w.nudge()
	}
	return true
}

// Forget ends the watch: from here on nothing of it has any effect on the lease.
// A renewal already on its way finds the lease gone, or renews what is released
// a moment later.
func (w *Watchdog[T]) Forget(g *Lease[T]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(g)
}

// Extended says that the holder itself had the lease extended, to end at until.
func (w *Watchdog[T]) Extended(g *Lease[T], until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !g.watched {
		return
	}
	g.failure, g.until = nil, until
	if !g.Renewed {
		g.next = until
	}
	heap.Fix(&w.due, g.index)
	if g.next.Before(w.wakeAt) {
		w.nudge()
	}
}

// AtMost says that the lease may end at until already.
func (w *Watchdog[T]) AtMost(g *Lease[T], until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !g.watched || !until.Before(g.until) {
		return
	}
	g.until, g.next = until, earlier(g.next, until)
	heap.Fix(&w.due, g.index)
	if g.next.Before(w.wakeAt) {
		w.nudge()
	}
}

// Len is how many leases are under watch.
func (w *Watchdog[T]) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.due)
}

func (w *Watchdog[T]) drop(g *Lease[T]) {
	if g.watched {
		g.watched = false
		heap.Remove(&w.due, g.index)
	}
}

func (w *Watchdog[T]) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Watchdog[T]) run() {
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
			w.tell([]*Lease[T]{g}, g.end())
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
func (g *Lease[T]) end() error {
	if g.failure != nil {
		return fmt.Errorf("not renewed in time: %w", g.failure)
	}
	return lock.ErrExpired
}

// look takes out what is over at now, marks what is to be renewed, and says when
// to look again. Leases that are due soon are renewed along with those that are.
func (w *Watchdog[T]) look(now time.Time) (over, batch []*Lease[T], next time.Time) {
	soon := now.Add(w.config.RenewEvery / 10)
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.due) > 0 {
		g := w.due[0]
		switch {
		case !g.until.After(now):
			w.drop(g)
			over = append(over, g)
			continue
		case g.next.Before(g.until) && !g.next.After(soon) && (len(batch) > 0 || !g.next.After(now)):
			g.next = g.until // whatever becomes of the renewal, the deadline holds
			heap.Fix(&w.due, 0)
			batch = append(batch, g)
			continue
		}
		next = g.next
		break
	}
	w.wakeAt = next
	return over, batch, next
}

// attempt renews a batch and applies what came of it.
func (w *Watchdog[T]) attempt(batch []*Lease[T]) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(w.closing, w.config.RetryEvery)
	defer cancel()
	for i, r := range w.renew(ctx, batch) {
		w.apply(batch[i], r, start)
	}
}

func (w *Watchdog[T]) apply(g *Lease[T], r Outcome, start time.Time) {
	if over := w.update(g, r, start); len(over) > 0 {
		w.tell(over, fmt.Errorf("%w: %q", r.Err, g.Held.Key()))
	}
}

// update applies one outcome and returns the leases that are over by it.
func (w *Watchdog[T]) update(g *Lease[T], r Outcome, start time.Time) (over []*Lease[T]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !g.watched {
		return nil // released meanwhile
	}
	switch {
	case r.Err == nil:
		g.failure = nil
		g.until = Until(start, g.TTL)
		g.next = earlier(start.Add(w.config.RenewEvery), g.until)
		g.Held.Renewed(g.until)
	case isOver(r.Err):
		return w.takeHold(g, r.Whole, start)
	default:
		// Not at once: what failed quickly would fail as quickly again.
		g.failure = r.Err
		g.next = earlier(start.Add(w.config.RetryEvery), g.until)
	}
	heap.Fix(&w.due, g.index)
	if g.next.Before(w.wakeAt) {
		w.nudge()
	}
	return nil
}

// takeHold takes out g and, where the whole hold is over, what the same owner had
// of the same key before the renewal that found out was sent. An attempt that was
// under way then may have been granted after it.
func (w *Watchdog[T]) takeHold(g *Lease[T], whole bool, start time.Time) []*Lease[T] {
	over := []*Lease[T]{g}
	if whole {
		for _, other := range w.due {
			if other != g && w.sameHold(other.Of, g.Of) && other.since.Before(start) {
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

func (w *Watchdog[T]) tell(over []*Lease[T], cause error) {
	for _, g := range over {
		if g.Held.Lose(cause) && w.config.Lost != nil {
			w.config.Lost(cause)
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
