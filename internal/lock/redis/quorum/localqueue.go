package quorum

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"seckill/internal/lock"
)

// localQueue lets one waiter of this process at a time ask for a key, in order of arrival. Several would only take
// votes from each other.
type localQueue struct {
	turn    chan struct{}                         // full while a waiter asks
	waiters int                                   // guarded by the locker's mutex
	refusal atomic.Pointer[lock.NotAcquiredError] // the newest, for waiters that never get to ask
}

// acquireQueued waits for its turn and then polls, both together for as long as wait.
func (l *Locker) acquireQueued(ctx context.Context, r *request, wait time.Duration) (lock.Lease, error) {
	start := time.Now()
	q := l.join(r.name)
	defer l.leave(r.name, q)
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case q.turn <- struct{}{}:
		defer func() { <-q.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-limit.C:
		if refusal := q.refusal.Load(); refusal != nil {
			return nil, refusal
		}
		return nil, &lock.NotAcquiredError{Key: r.key}
	}
	return l.config.Poll.Acquire(ctx, wait-time.Since(start), func(ctx context.Context) (lock.Lease, error) {
		lease, err := l.try(ctx, r)
		if refusal, ok := errors.AsType[*lock.NotAcquiredError](err); ok {
			q.refusal.Store(refusal)
		}
		return lease, err
	})
}

// join adds a waiter for a key.
func (l *Locker) join(name string) *localQueue {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.localQueues[name]
	if q == nil {
		q = &localQueue{turn: make(chan struct{}, 1)}
		l.localQueues[name] = q
	}
	q.waiters++
	return q
}

// leave removes a waiter, and the queue with the last one.
func (l *Locker) leave(name string, q *localQueue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.waiters--; q.waiters == 0 {
		delete(l.localQueues, name)
	}
}
