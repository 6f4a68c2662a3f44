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

// Config configures a [Watchdog].
type Config struct {
	// RenewEvery is how often a lease is renewed, usually a third of its length.
	RenewEvery time.Duration
	// RetryEvery is how long one attempt to renew may take, and how soon after its start a failed one is repeated. A
	// lease that ends before that is tried again sooner.
	RetryEvery time.Duration
}

// Watchdog watches leases. T is what the mechanism knows of one.
type Watchdog[T any] struct {
	config     Config
	renew      func(context.Context, []*Entry[T]) []Outcome
	sameHolder func(a, b T) bool

	mu     sync.Mutex
	due    dueHeap[T]
	wakeAt time.Time     // when the goroutine runs next; zero: not set
	wake   chan struct{} // it has to run earlier

	closing context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Entry is a lease that is watched. Set the exported fields before [Watchdog.Watch] and do not change them.
type Entry[T any] struct {
	// Held is the lease. Its holder is told when it ends.
	Held *lock.Held
	// Start is when the attempt that was granted began.
	Start time.Time
	// TTL is the length of the lease. AutoRenew: the watchdog renews it by that length.
	TTL       time.Duration
	AutoRenew bool
	// FirstTTL is the length of the lease before its first renewal. 0: TTL.
	FirstTTL time.Duration
	// Value is the mechanism's own.
	Value T

	// Guarded by the watchdog's mutex.
	index   int       // in the heap
	since   time.Time // when the grant was known
	watched bool      // from the grant to the release or the loss
	next    time.Time // when it has to be renewed, or the holder told
	until   time.Time // when the holder has to stop
	failure error     // of the last renewal; nil if it succeeded
}

// Outcome is the result of one renewal.
//
//	nil                                it succeeded
//	lock.ErrExpired or lock.ErrLost    the lease is over; AllOfHolder: so are all leases of
//	                                   the same holder
//	other errors                       it may be tried again
type Outcome struct {
	Err         error
	AllOfHolder bool
}

// New starts a watchdog. renew renews a batch and returns an outcome for each, in order, before its context ends.
// sameHolder says whether two leases are lost together, as those of one owner on one key are; nil: no two are.
func New[T any](
	config Config, renew func(context.Context, []*Entry[T]) []Outcome, sameHolder func(a, b T) bool,
) *Watchdog[T] {
	if sameHolder == nil {
		sameHolder = func(T, T) bool { return false }
	}
	w := &Watchdog[T]{config: config, renew: renew, sameHolder: sameHolder, wake: make(chan struct{}, 1)}
	w.closing, w.cancel = context.WithCancel(context.Background())
	w.running.Go(w.run)
	return w
}

// Close stops the watchdog and tells every holder that its lease is no longer watched.
func (w *Watchdog[T]) Close() {
	w.cancel()
	w.running.Wait()
	w.mu.Lock()
	orphans := append([]*Entry[T](nil), w.due...)
	for _, e := range orphans {
		w.remove(e)
	}
	w.mu.Unlock()
	w.notify(orphans, closedError())
}

func closedError() error { return fmt.Errorf("%w: %w", lock.ErrUnavailable, errClosed) }

// Until returns when a lease of ttl that was asked for at start ends for its holder: by [Margin] earlier than for the
// store.
func Until(start time.Time, ttl time.Duration) time.Time { return start.Add(ttl - Margin(ttl)) }

// Margin returns how much earlier a lease ends for its holder than for the store: 2 %, at most 200 ms. The store counts
// from the arrival of the command, which is later than the start of the attempt; the margin covers clocks of different
// speed and a late timer.
func Margin(ttl time.Duration) time.Duration { return min(ttl/50, 200*time.Millisecond) }

// Watch starts to watch a lease that was just granted.
func (w *Watchdog[T]) Watch(e *Entry[T]) {
	if !w.add(e, Until(e.Start, cmp.Or(e.FirstTTL, e.TTL))) {
		w.notify([]*Entry[T]{e}, closedError())
	}
}

// add reports false where the watchdog is closed.
func (w *Watchdog[T]) add(e *Entry[T], until time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing.Err() != nil {
		return false
	}
	e.since, e.watched, e.until, e.next = time.Now(), true, until, until
	if e.AutoRenew {
		e.next = earlier(e.Start.Add(w.config.RenewEvery), until)
		if e.FirstTTL != 0 {
			e.next = earlier(e.next, e.since.Add(until.Sub(e.since)/3))
		}
	}
	heap.Push(&w.due, e)
	if w.wakeAt.IsZero() || e.next.Before(w.wakeAt) {
		w.wakeUp()
	}
	return true
}

// Unwatch stops watching a lease: from here on the watchdog does not affect it. A renewal that is on its way finds the
// lease gone, or renews it just before its release.
func (w *Watchdog[T]) Unwatch(e *Entry[T]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(e)
}

// Extended records that the holder extended the lease, to end at until.
func (w *Watchdog[T]) Extended(e *Entry[T], until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !e.watched {
		return
	}
	e.failure, e.until = nil, until
	if !e.AutoRenew {
		e.next = until
	}
	heap.Fix(&w.due, e.index)
	if e.next.Before(w.wakeAt) {
		w.wakeUp()
	}
}

// Shorten records that the lease may end at until already.
func (w *Watchdog[T]) Shorten(e *Entry[T], until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !e.watched || !until.Before(e.until) {
		return
	}
	e.until, e.next = until, earlier(e.next, until)
	heap.Fix(&w.due, e.index)
	if e.next.Before(w.wakeAt) {
		w.wakeUp()
	}
}

func (w *Watchdog[T]) remove(e *Entry[T]) {
	if e.watched {
		e.watched = false
		heap.Remove(&w.due, e.index)
	}
}

func (w *Watchdog[T]) wakeUp() {
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
		over, batch, next := w.takeDue(time.Now())
		for _, e := range over {
			w.notify([]*Entry[T]{e}, e.endCause())
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

// endCause returns why a lease reached its end: it could not be renewed, or else it was a fixed one or this process did
// not run in time.
func (e *Entry[T]) endCause() error {
	if e.failure != nil {
		return fmt.Errorf("not renewed in time: %w", e.failure)
	}
	return lock.ErrExpired
}

// takeDue removes the leases that are over at now, returns those that have to be renewed, and when to run next. Leases
// that are due soon are renewed together with those that are due.
func (w *Watchdog[T]) takeDue(now time.Time) (over, batch []*Entry[T], next time.Time) {
	soon := now.Add(w.config.RenewEvery / 10)
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.due) > 0 {
		e := w.due[0]
		switch {
		case !e.until.After(now):
			w.remove(e)
			over = append(over, e)
			continue
		case e.next.Before(e.until) && !e.next.After(soon) && (len(batch) > 0 || !e.next.After(now)):
			e.next = e.until // the end holds, whatever the renewal returns
			heap.Fix(&w.due, 0)
			batch = append(batch, e)
			continue
		}
		next = e.next
		break
	}
	w.wakeAt = next
	return over, batch, next
}

// attempt renews a batch and applies the outcomes.
func (w *Watchdog[T]) attempt(batch []*Entry[T]) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(w.closing, w.config.RetryEvery)
	defer cancel()
	for i, r := range w.renew(ctx, batch) {
		w.apply(batch[i], r, start)
	}
}

func (w *Watchdog[T]) apply(e *Entry[T], r Outcome, start time.Time) {
	if over := w.update(e, r, start); len(over) > 0 {
		w.notify(over, fmt.Errorf("%w: %q", r.Err, e.Held.Key()))
	}
}

// update applies one outcome and returns the leases that it ended.
func (w *Watchdog[T]) update(e *Entry[T], r Outcome, start time.Time) (over []*Entry[T]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !e.watched {
		return nil // it was released meanwhile
	}
	switch {
	case r.Err == nil:
		e.failure = nil
		e.until = Until(start, e.TTL)
		e.next = earlier(start.Add(w.config.RenewEvery), e.until)
		e.Held.Renewed(e.until)
	case isOver(r.Err):
		return w.removeLost(e, r.AllOfHolder, start)
	default:
		e.failure = r.Err
		e.next = w.retryAt(e, start)
	}
	heap.Fix(&w.due, e.index)
	if e.next.Before(w.wakeAt) {
		w.wakeUp()
	}
	return nil
}

// retryAt returns when a renewal of e that began at start and failed is repeated. It is after a pause: a renewal that
// failed quickly would fail as quickly again. If less than the pause is left, as after a handover, it is repeated after
// a third of what is left, as long as that is a tenth of the pause or more.
func (w *Watchdog[T]) retryAt(e *Entry[T], start time.Time) time.Time {
	if at := start.Add(w.config.RetryEvery); at.Before(e.until) {
		return at
	}
	now := time.Now()
	if pause := e.until.Sub(now) / 3; pause >= w.config.RetryEvery/10 {
		return now.Add(pause)
	}
	return e.until
}

// removeLost removes e and, where all leases of the holder are over, the others that it had before the renewal was
// sent. A later one may have been granted after the renewal.
func (w *Watchdog[T]) removeLost(e *Entry[T], allOfHolder bool, start time.Time) []*Entry[T] {
	over := []*Entry[T]{e}
	if allOfHolder {
		for _, other := range w.due {
			if other != e && w.sameHolder(other.Value, e.Value) && other.since.Before(start) {
				over = append(over, other)
			}
		}
	}
	for _, lost := range over {
		w.remove(lost)
	}
	return over
}

func isOver(err error) bool { return errors.Is(err, lock.ErrExpired) || errors.Is(err, lock.ErrLost) }

func (w *Watchdog[T]) notify(over []*Entry[T], cause error) {
	for _, e := range over {
		e.Held.Lose(cause)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
