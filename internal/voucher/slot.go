package voucher

import (
	"context"
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
	loading chan struct{} // closed when the running load ends; nil if none runs
}

// snapshot is what the store returned at a time.
type snapshot[T any] struct {
	value T
	at    time.Time
	err   error // the store failed, and there was no earlier value
}

func (s *snapshot[T]) fresh(now time.Time, ttl time.Duration) bool {
	return s != nil && now.Sub(s.at) < ttl
}

// latest returns the snapshot to serve if the current one is not fresh: the one that is loaded, or a current one
// younger than stale while another caller loads. Its only error is the context's.
func (s *slot[T]) latest(ctx context.Context, now func() time.Time, stale time.Duration, load func(context.Context) (T, error)) (*snapshot[T], error) {
	seen := s.seen.Load()
	done, mine := s.claim()
	if mine {
		// All waiting callers share the result, so it must not depend on this caller's context.
		go s.load(context.WithoutCancel(ctx), done, now, load)
	}
	var patience <-chan time.Time // nil: wait without limit
	if seen != nil && seen.err == nil {
		if !mine && now().Sub(seen.at) < stale {
			return seen, nil
		}
		timer := time.NewTimer(loadPatience)
		defer timer.Stop()
		patience = timer.C
	}
	select {
	case <-done:
		return s.seen.Load(), nil
	case <-patience:
		return seen, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// load asks the store. If the store fails, the earlier value stays. Either way the store is not asked again
// before the snapshot is out of date.
func (s *slot[T]) load(ctx context.Context, done chan struct{}, now func() time.Time, load func(context.Context) (T, error)) {
	defer s.release(done)
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	next := snapshot[T]{at: now()} // before the query: the result is at least this new
	next.value, next.err = load(ctx)
	if next.err != nil {
		next.at = now()
		if seen := s.seen.Load(); seen != nil && seen.err == nil {
			next.value, next.err = seen.value, nil
		}
	}
	s.put(&next)
}

// put stores a snapshot, unless there is a newer one.
func (s *slot[T]) put(next *snapshot[T]) {
	for {
		seen := s.seen.Load()
		if seen != nil && seen.at.After(next.at) || s.seen.CompareAndSwap(seen, next) {
			return
		}
	}
}

// claim makes the caller the loader, or returns the running load to wait for.
func (s *slot[T]) claim() (done chan struct{}, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loading != nil {
		return s.loading, false
	}
	s.loading = make(chan struct{})
	return s.loading, true
}

func (s *slot[T]) release(done chan struct{}) {
	s.mu.Lock()
	s.loading = nil
	s.mu.Unlock()
	close(done)
}

// budget is a rate limit: a number of operations per second, and as many at once (the generic cell rate
// algorithm).
type budget struct {
	perSecond int

	mu  sync.Mutex
	due time.Time // the theoretical arrival time of the algorithm
}

func (b *budget) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	due := b.due
	if due.Before(now) {
		due = now
	}
	due = due.Add(time.Second / time.Duration(b.perSecond))
	if due.Sub(now) > time.Second {
		return false
	}
	b.due = due
	return true
}
