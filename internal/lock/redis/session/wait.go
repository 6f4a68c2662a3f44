package session

import (
	"context"
	"errors"
	"time"

	"seckill/internal/lock"
)

// wait waits in the queue until the lock is handed over, an attempt succeeds or fails, or time is up. It is safe
// because of the order: subscribe, try, and only then sleep, never longer than the holder's lease. So a lost message
// costs no more than that.
func (s *Session) wait(ctx, limit context.Context, r *request) (held *lock.Held, err error) {
	limit, cancel := context.WithCancel(limit)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	w := s.waiters.join(r, func() string { return s.channel(r) })
	defer func() { s.leave(w, held != nil || errors.Is(err, lock.ErrAbandoned)) }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		handover, ask, wakeAt := s.waiters.next(w)
		switch {
		case handover != nil:
			return s.deliver(ctx, r, handover.grant)
		case ask:
			held, err := s.try(ctx, limit, r, w)
			if !errors.Is(err, lock.ErrNotAcquired) {
				return held, err
			}
			if limit.Err() != nil {
				return nil, s.waitError(ctx, r, w)
			}
			continue
		}
		timer.Stop()
		if !wakeAt.IsZero() {
			timer.Reset(time.Until(wakeAt))
		}
		select {
		case <-w.wake:
		case <-timer.C:
		case <-limit.Done():
			if handover := s.waiters.awaitHandover(w); handover != nil {
				return s.deliver(ctx, r, handover.grant)
			}
			return nil, s.waitError(ctx, r, w)
		}
	}
}

// waitError is the error of a wait that ended: as endError, with the last known holder.
func (s *Session) waitError(ctx context.Context, r *request, w *waiter) error {
	err := s.endError(ctx, r)
	if errors.Is(err, lock.ErrNotAcquired) {
		return s.waiters.lastRefusal(r.key, w)
	}
	return err
}

// awaitHandover waits briefly for a handover that is under way: a lock that is handed over at the last moment has to be
// used or released.
func (q *waitQueues) awaitHandover(w *waiter) *handoverResult {
	q.mu.Lock()
	done := w.handoverDone
	q.mu.Unlock()
	if done != nil {
		timer := time.NewTimer(w.req.cleanUpTime())
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.handover
}

// leave leaves the queue and removes the entry in Redis. Where that takes long it continues in the background.
func (s *Session) leave(w *waiter, granted bool) {
	entry := s.waiters.leave(w, granted)
	if entry == "" {
		return
	}
	done := make(chan struct{})
	ok := s.background(func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(s.closing, lock.ReleaseTimeout)
		defer cancel()
		if pending := w.req.pending; pending != nil {
			pending.wait(ctx) // carried out after this, it would add the entry again
		}
		// Where this fails the entry expires.
		s.batcher.run(ctx, s.scripts.leave, w.req.keys, entry, s.config.QueueEntryTTL.Milliseconds())
	})
	if !ok {
		return
	}
	timer := time.NewTimer(w.req.cleanUpTime())
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
