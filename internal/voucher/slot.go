package voucher

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a [slot].
const (
	loadTimeout = 3 * time.Second
	// While a new value is loaded, an order gets the old one if that is younger than serveStale. Other callers wait
	// for the load, at most loadPatience: a store that hangs must not block callers for which a stale value is
	// good enough.
	serveStale   = time.Second
	loadPatience = 200 * time.Millisecond
)

// slot caches one value of the store. Only one load runs at a time.
type slot[T any] struct {
	seen atomic.Pointer[snapshot[T]]

	mu      sync.Mutex
	loading *loading // nil if no load runs
}

// snapshot is what the store returned at a time.
type snapshot[T any] struct {
	value T
	at    time.Time
	// err is [ErrNotFound], or the store failed and there was no earlier value. It is as good as a value until it is out
	// of date, and never afterwards: another process may have created what did not exist.
	err error
}

func (s *snapshot[T]) fresh(now time.Time, ttl time.Duration) bool {
	return s != nil && now.Sub(s.at) < ttl
}

func (s *snapshot[T]) hasValue() bool { return s != nil && s.err == nil }

// loading is a load that callers wait for.
type loading struct {
	done   chan struct{} // closed when it ends
	cancel context.CancelFunc
	// waiting counts the callers. The slot's mutex protects it.
	waiting int
}

// source is where a slot gets its value from.
type source[T any] struct {
	now  func() time.Time
	load func(context.Context) (T, error)
	// mayLoad is asked before a load begins; nil allows all.
	mayLoad func() bool
	// abandon: a load for which nobody waits any more is cancelled, unless there is an old value to renew.
	abandon bool
}

// latest returns the snapshot to serve if the current one is not fresh: the one that is loaded, or a current value
// younger than stale while another caller loads. Its errors are the context's, and [ErrBusy] if a load is not allowed
// and there is no value.
func (s *slot[T]) latest(ctx context.Context, stale time.Duration, from source[T]) (*snapshot[T], error) {
	seen := s.seen.Load()
	l, mine := s.join(ctx, from)
	if l == nil {
		if !seen.hasValue() {
			return nil, ErrBusy
		}
		return seen, nil
	}
	defer s.leave(l, from.abandon)
	var patience <-chan time.Time // nil: wait without limit
	if seen.hasValue() {
		if !mine && from.now().Sub(seen.at) < stale {
			return seen, nil
		}
		timer := time.NewTimer(loadPatience)
		defer timer.Stop()
		patience = timer.C
	}
	select {
	case <-l.done:
		return s.seen.Load(), nil
	case <-patience:
		return seen, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// join makes the caller wait for the running load, or begins one. It returns nil if that is not allowed.
func (s *slot[T]) join(ctx context.Context, from source[T]) (l *loading, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loading == nil {
		if from.mayLoad != nil && !from.mayLoad() {
			return nil, false
		}
		// All waiting callers share the result, so it must not depend on this caller's context.
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		s.loading, mine = &loading{done: make(chan struct{}), cancel: cancel}, true
		go s.load(ctx, s.loading, from)
	}
	s.loading.waiting++
	return s.loading, mine
}

// leave ends a caller's wait for a load. Each caller that has joined one calls it once.
func (s *slot[T]) leave(l *loading, abandon bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.waiting--
	if l.waiting == 0 && s.loading == l && abandon && !s.seen.Load().hasValue() {
		s.loading = nil // the next caller begins another one
		l.cancel()
	}
}

// load asks the store. If the store fails, the earlier value stays. Either way the store is not asked again
// before the snapshot is out of date.
func (s *slot[T]) load(ctx context.Context, l *loading, from source[T]) {
	defer s.end(l)
	limited, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	next := snapshot[T]{at: from.now()} // before the query: the result is at least this new
	next.value, next.err = from.load(limited)
	if next.err != nil && ctx.Err() != nil { // abandoned
		return
	}
	if next.failed() {
		next.at = from.now()
	}
	s.put(&next)
}

func (s *snapshot[T]) failed() bool { return s.err != nil && !errors.Is(s.err, ErrNotFound) }

// put stores a snapshot, unless there is a newer one. A failure of the store leaves an earlier value as it is.
func (s *slot[T]) put(next *snapshot[T]) {
	for {
		seen, stored := s.seen.Load(), next
		if seen != nil && seen.at.After(next.at) {
			return
		}
		if next.failed() && seen.hasValue() {
			stored = &snapshot[T]{value: seen.value, at: next.at}
		}
		if s.seen.CompareAndSwap(seen, stored) {
			return
		}
	}
}

func (s *slot[T]) end(l *loading) {
	s.mu.Lock()
	if s.loading == l {
		s.loading = nil
	}
	s.mu.Unlock()
	l.cancel()
	close(l.done)
}

// budget is a rate limit: a number of operations per second, and as many at once (the generic cell rate
// algorithm).
type budget struct {
	perSecond int

	mu  sync.Mutex
	due time.Time // the theoretical arrival time of the algorithm
}

// take reports whether another operation is within the limit, and counts it if so.
func (b *budget) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	due := b.after(now)
	if due.Sub(now) > time.Second {
		return false
	}
	b.due = due
	return true
}

// spend counts an operation that is done whatever the limit. Those beyond it delay later ones, by a second at most.
func (b *budget) spend(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if due := b.after(now); due.Sub(now) <= 2*time.Second {
		b.due = due
	}
}

// after is the arrival time after one more operation. The lock is held.
func (b *budget) after(now time.Time) time.Time {
	due := b.due
	if due.Before(now) {
		due = now
	}
	return due.Add(time.Second / time.Duration(b.perSecond))
}
