package lock

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Observer receives the events that metrics are made of. Its functions are called by the goroutine that acquires or
// releases and must not block; any may be nil.
type Observer struct {
	// Acquired: a lease was granted after waited.
	Acquired func(waited time.Duration)
	// Granted is called with each lease as the mechanism returned it.
	Granted func(Lease)
	// Refused: an acquisition failed with err after waited.
	Refused func(waited time.Duration, err error)
	// Released: a release ended with err (nil: the key was given back) after held.
	Released func(held time.Duration, err error)
	// Lost: a lease ended before its release, because of cause. It is called once per lease: when the holder is told,
	// else at the release that finds out.
	Lost func(cause error)
}

// Observe returns a Locker that works as l and reports to o.
func Observe(l Locker, o Observer) Locker {
	return Decorate(l, (&observed{locker: l, to: o}).acquire)
}

type observed struct {
	locker Locker
	to     Observer
}

func (l *observed) acquire(ctx context.Context, key string, opts Options) (Lease, error) {
	start := time.Now()
	lease, err := l.locker.Acquire(ctx, key, opts)
	waited := time.Since(start)
	if err != nil {
		if l.to.Refused != nil {
			l.to.Refused(waited, err)
		}
		return nil, err
	}
	if l.to.Acquired != nil {
		l.to.Acquired(waited)
	}
	if l.to.Granted != nil {
		l.to.Granted(lease)
	}
	o := &observedLease{Lease: lease, to: l.to, since: start.Add(waited)}
	o.unwatch = context.AfterFunc(lease.Context(), func() {
		if ctx.Err() == nil { // else it was the caller's context that ended, and the lease goes on
			o.lose(context.Cause(lease.Context()))
		}
	})
	return o, nil
}

type observedLease struct {
	Lease
	to      Observer
	since   time.Time
	unwatch func() bool
	lost    sync.Once
	release sync.Once
}

func (l *observedLease) lose(cause error) {
	l.lost.Do(func() {
		if l.to.Lost != nil {
			l.to.Lost(cause)
		}
	})
}

// Handover passes on what [HandoverOf] asks for.
func (l *observedLease) Handover() Handover { return HandoverOf(l.Lease) }

// Release implements [Lease].
func (l *observedLease) Release(ctx context.Context) error {
	l.unwatch()
	err := l.Lease.Release(ctx)
	switch {
	case errors.Is(err, ErrNotHeld):
		return err // an earlier release was reported
	case errors.Is(err, ErrExpired) || errors.Is(err, ErrLost):
		l.lose(err)
	}
	l.release.Do(func() {
		if l.to.Released != nil {
			l.to.Released(time.Since(l.since), err)
		}
	})
	return err
}

// Abandon implements [Abandoner].
func (l *observedLease) Abandon() {
	l.unwatch()
	Abandon(l.Lease)
}
