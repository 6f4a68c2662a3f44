package session

import (
	"context"
	"sync"
	"time"
)

// waitLimit is a context that ends with its parent or at a deadline, as one of context.WithDeadline does. It sets its
// timer only when somebody waits for it, which the holder of a lock that was free at once never does.
type waitLimit struct {
	context.Context // the parent
	deadline        time.Time

	mu     sync.Mutex
	timed  context.Context // the parent with a timer; nil: nobody has waited yet
	cancel context.CancelFunc
}

func newWaitLimit(parent context.Context, deadline time.Time) *waitLimit {
	return &waitLimit{Context: parent, deadline: deadline}
}

// stop releases the timer.
func (l *waitLimit) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		l.cancel()
	}
}

// timer returns the context with a timer.
func (l *waitLimit) timer() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timed == nil {
		l.timed, l.cancel = context.WithDeadline(l.Context, l.deadline)
	}
	return l.timed
}

// Deadline implements [context.Context].
func (l *waitLimit) Deadline() (time.Time, bool) {
	if d, ok := l.Context.Deadline(); ok && d.Before(l.deadline) {
		return d, true
	}
	return l.deadline, true
}

// Done implements [context.Context].
func (l *waitLimit) Done() <-chan struct{} { return l.timer().Done() }

// Err implements [context.Context].
func (l *waitLimit) Err() error {
	l.mu.Lock()
	timed := l.timed
	l.mu.Unlock()
	switch {
	case timed != nil:
		return timed.Err()
	case l.Context.Err() != nil:
		return l.Context.Err()
	case !time.Now().Before(l.deadline):
		return context.DeadlineExceeded
	}
	return nil
}
