package reentrant

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"seckill/internal/lock"
)

// room is where acquisitions of this process wait: one line for each lock, in
// order of arrival. Only the head of a line talks to Redis, so a process costs
// Redis one waiter for each lock, however many of its goroutines want it.
type room struct {
	listener *listener

	mu    sync.Mutex
	lines map[string]*line // by the lock's key in Redis
}

type line struct {
	bell    *bell
	waiters list.List // of *waiter; the front is the head

	// What the head last heard, for those behind it whose wait ends first.
	holder lock.Owner
	until  time.Time // zero: no expiry
}

// waiter is a place in a line.
type waiter struct {
	line *line
	at   *list.Element
	turn chan struct{} // closed when it is the head
}

func newRoom(listener *listener) *room {
	return &room{listener: listener, lines: make(map[string]*line)}
}

// busy reports whether anybody waits for a lock.
func (m *room) busy(name string) bool { return m.waiting(name) > 0 }

// waiting is how many do.
func (m *room) waiting(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l, ok := m.lines[name]; ok {
		return l.waiters.Len()
	}
	return 0
}

// join takes the last place; the first to come has the channel subscribed to.
func (m *room) join(r *request) *waiter {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ok := m.lines[r.lock]
	if !ok {
		l = &line{bell: m.listener.want(r.channel)}
		m.lines[r.lock] = l
	}
	w := &waiter{line: l, turn: make(chan struct{})}
	w.at = l.waiters.PushBack(w)
	if l.waiters.Len() == 1 {
		close(w.turn)
	}
	return w
}

// leave gives the place up, wherever it is; the last to go has the channel
// unsubscribed from. The next head always tries at once, so a wake-up that the
// one before it heard and did not use is not lost.
func (m *room) leave(r *request, w *waiter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := w.line
	wasHead := l.waiters.Front() == w.at
	l.waiters.Remove(w.at)
	switch next := l.waiters.Front(); {
	case next == nil:
		delete(m.lines, r.lock)
		m.listener.unwant(r.channel)
	case wasHead:
		close(next.Value.(*waiter).turn)
	}
}

// heard records a refusal.
func (m *room) heard(w *waiter, e *lock.NotAcquiredError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.line.holder, w.line.until = e.Holder, time.Time{}
	if e.TTL != lock.NoExpiry {
		w.line.until = time.Now().Add(e.TTL)
	}
}

// lastHeard is the refusal for one whose wait has ended.
func (m *room) lastHeard(key string, w *waiter) *lock.NotAcquiredError {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := &lock.NotAcquiredError{Key: key, Holder: w.line.holder, TTL: lock.NoExpiry}
	switch {
	case e.Holder == "":
		e.TTL = 0
	case !w.line.until.IsZero():
		e.TTL = max(time.Until(w.line.until), 0)
	}
	return e
}

// wait stands in line and then tries until it succeeds, fails, or is out of time.
// The order is what makes it safe: subscribe, try, and only then sleep, never
// longer than the holder's lease; a message that is missed costs no more than that.
func (l *Locker) wait(ctx context.Context, r *request, wait time.Duration) (*lock.Held, error) {
	limit, cancel := context.WithDeadline(ctx, r.begun.Add(wait))
	defer cancel()
	defer context.AfterFunc(l.closing, cancel)()
	w := l.room.join(r)
	defer l.room.leave(r, w)

	select {
	case <-w.turn:
	case <-limit.Done():
		return nil, l.outOfTime(ctx, r, w)
	}
	if !w.line.bell.ready.Load() && !w.line.bell.wait(limit, l.config.CommandTimeout) {
		return nil, l.outOfTime(ctx, r, w)
	}
	for {
		held, err := l.try(ctx, limit, r, true)
		refused, ok := errors.AsType[*lock.NotAcquiredError](err)
		if !ok {
			return held, err
		}
		if limit.Err() == nil {
			l.room.heard(w, refused)
		}
		if !w.line.bell.wait(limit, l.patience(refused.TTL)) {
			return nil, l.outOfTime(ctx, r, w)
		}
	}
}

// patience is how long to sleep with a holder whose lease runs ttl. PTTL rounds
// to whole milliseconds, and a key is there until the last one is over.
func (l *Locker) patience(ttl time.Duration) time.Duration {
	if ttl == lock.NoExpiry {
		return l.config.RetryEvery
	}
	return ttl + time.Millisecond
}

func (l *Locker) outOfTime(ctx context.Context, r *request, w *waiter) error {
	err := l.ended(ctx, r)
	if errors.Is(err, lock.ErrNotAcquired) {
		return l.room.lastHeard(r.key, w)
	}
	return err
}
