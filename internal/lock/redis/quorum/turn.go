package quorum

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"seckill/internal/lock"
)

// turn lets one waiter of this process at a time ask for a key. The others could
// only take votes from each other; they stand behind it in order of arrival.
type turn struct {
	slot    chan struct{}
	waiters int                                   // guarded by the locker's mutex
	refusal atomic.Pointer[lock.NotAcquiredError] // the newest, for who never gets to ask
}

// inTurn waits for the turn and then polls until wait, which began at the start.
func (l *Locker) inTurn(ctx context.Context, r *request, wait time.Duration) (lock.Lease, error) {
	start := time.Now()
	t := l.join(r.name)
	defer l.leave(r.name, t)
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case t.slot <- struct{}{}:
		defer func() { <-t.slot }()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-limit.C:
		if refusal := t.refusal.Load(); refusal != nil {
			return nil, refusal
		}
		return nil, &lock.NotAcquiredError{Key: r.key}
	}
	return l.config.Poll.Acquire(ctx, wait-time.Since(start), func(ctx context.Context) (lock.Lease, error) {
		lease, err := l.try(ctx, r)
		if refusal, ok := errors.AsType[*lock.NotAcquiredError](err); ok {
			t.refusal.Store(refusal)
		}
		return lease, err
	})
}

func (l *Locker) join(name string) *turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.turns[name]
	if t == nil {
		t = &turn{slot: make(chan struct{}, 1)}
		l.turns[name] = t
	}
	t.waiters++
	return t
}

func (l *Locker) leave(name string, t *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.waiters--; t.waiters == 0 {
		delete(l.turns, name)
	}
}
