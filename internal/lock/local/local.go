package local

import (
	"context"
	"slices"
	"sync"
	"time"

	"seckill/internal/lock"
)

// Locker keeps a queue for each key that is held.
type Locker struct {
	owners *lock.Owners

	mu     sync.Mutex
	queues map[string][]*entrant // the first holds the key, the others wait for it
}

// entrant is a holder or a waiter.
type entrant struct {
	owner lock.Owner
	first chan struct{} // closed once it is at the head of the queue
	how   lock.Handover
}

var _ lock.Locker = (*Locker)(nil)

// New returns a Locker with every key free.
func New() *Locker {
	return &Locker{owners: lock.NewOwners(), queues: make(map[string][]*entrant)}
}

// Acquire implements [lock.Locker]. Waiters get the key in order of arrival. opts.TTL is checked and otherwise ignored.
func (l *Locker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e := &entrant{owner: l.owners.From(ctx), first: make(chan struct{})}
	if err := l.enter(key, e, opts.Wait > 0); err != nil {
		return nil, err
	}
	if err := l.wait(ctx, key, e, opts.Wait); err != nil {
		l.leave(key, e)
		return nil, err
	}
	lease := lock.NewHeld(ctx, lock.Grant{
		Key: key, Owner: e.owner, Handover: e.how,
		Release: func(context.Context) error { l.leave(key, e); return nil },
	})
	return lock.Deliver(ctx, lease)
}

// enter appends e to the queue. A caller that does not wait may join an empty queue only.
func (l *Locker) enter(key string, e *entrant, mayWait bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queues[key]
	if len(q) > 0 && !mayWait {
		return &lock.NotAcquiredError{Key: key, Holder: q[0].owner}
	}
	if len(q) == 0 {
		close(e.first)
	} else {
		e.how = lock.PassedInProcess
	}
	l.queues[key] = append(q, e)
	return nil
}

// wait returns nil once e is first.
func (l *Locker) wait(ctx context.Context, key string, e *entrant, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-e.first:
		return nil
	default: // check this first: a limit of 0 has passed already
	}
	select {
	case <-e.first:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return &lock.NotAcquiredError{Key: key, Holder: l.holder(key)}
	}
}

// leave removes e from the queue. If e was the first, the next one becomes the holder.
func (l *Locker) leave(key string, e *entrant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queues[key]
	i := slices.Index(q, e)
	q = slices.Delete(q, i, i+1)
	if len(q) == 0 {
		delete(l.queues, key)
		return
	}
	l.queues[key] = q
	if i == 0 {
		close(q[0].first)
	}
}

func (l *Locker) holder(key string) lock.Owner {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.queues[key]; len(q) > 0 {
		return q[0].owner
	}
	return ""
}
