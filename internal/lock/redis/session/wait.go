package session

import (
	"context"
	"errors"
	"time"

	"seckill/internal/lock"
)

// wait stands in line until the lock is handed over, an attempt succeeds or fails,
// or time is up. The order is what makes it safe: subscribe, try, and only then
// sleep, never longer than the holder's lease; a message that is missed costs no
// more than that.
func (s *Session) wait(ctx, limit context.Context, r *request) (held *lock.Held, err error) {
	limit, cancel := context.WithCancel(limit)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	w := s.room.join(r, func() string { return s.channel(r) })
	defer func() { s.leave(w, held != nil || errors.Is(err, lock.ErrAbandoned)) }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		handed, ask, wake := s.room.turn(w)
		switch {
		case handed != nil:
			return s.deliver(ctx, r, handed.grant)
		case ask:
			held, err := s.try(ctx, limit, r, w)
			if !errors.Is(err, lock.ErrNotAcquired) {
				return held, err
			}
			if limit.Err() != nil {
				return nil, s.outOfTime(ctx, r, w)
			}
			continue
		}
		timer.Stop()
		if !wake.IsZero() {
			timer.Reset(time.Until(wake))
		}
		select {
		case <-w.bell:
		case <-timer.C:
		case <-limit.Done():
			if handed := s.room.lastChance(w); handed != nil {
				return s.deliver(ctx, r, handed.grant)
			}
			return nil, s.outOfTime(ctx, r, w)
		}
	}
}

func (s *Session) outOfTime(ctx context.Context, r *request, w *waiter) error {
	err := s.ended(ctx, r)
	if errors.Is(err, lock.ErrNotAcquired) {
		return s.room.lastHeard(r.key, w)
	}
	return err
}

// lastChance waits for a hand-over that is under way, if only for a moment: what
// was handed over at the last minute is there to be used, or to be given back.
func (m *room) lastChance(w *waiter) *handOver {
	m.mu.Lock()
	handing := w.handing
	m.mu.Unlock()
	if handing != nil {
		timer := time.NewTimer(w.r.promptly())
		defer timer.Stop()
		select {
		case <-handing:
		case <-timer.C:
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return w.handed
}

// leave leaves the line and gives the place in Redis up, in the background where
// that takes long.
func (s *Session) leave(w *waiter, granted bool) {
	member := s.room.leave(w, granted)
	if member == "" {
		return
	}
	done := make(chan struct{})
	ok := s.background(func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(s.closing, lock.ReleaseTimeout)
		defer cancel()
		if pending := w.r.pending; pending != nil {
			pending.wait(ctx) // an attempt that came after this would take the place again
		}
		s.pipe.run(ctx, s.scripts.leave, w.r.keys, member, s.config.PlaceTimeout.Milliseconds()) // a place that stays ends by itself
	})
	if !ok {
		return
	}
	timer := time.NewTimer(w.r.promptly())
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
