package httpserver

import (
	"context"
	"sync"
	"time"
)

// Deadline is a [context.WithDeadline] that starts its timer on the first call of Done. A request that is refused from
// memory never calls it, and the timer would be the most expensive part of that request.
//
// The context ends at a given time, with its parent, or when End is called. End must be called. Once the timer runs,
// all methods are those of the standard context; before that they are the parent's, except that Err also checks the
// clock. If the parent is the context of a request, the first call of Done also has its connection watched: before it,
// the context does not end when the client leaves.
type Deadline struct {
	Parent context.Context
	At     time.Time

	mu      sync.Mutex
	set     context.Context // the standard context; nil until Done is called
	cancel  context.CancelFunc
	unwatch func() // ends the watch for the client's leaving
	ended   bool
}

var _ context.Context = (*Deadline)(nil)

// End ends the context: the work is over.
func (d *Deadline) End() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.set != nil && !d.ended {
		d.cancel()
		d.unwatch()
	}
	d.ended = true
}

// Extend postpones the end. It has no effect once the timer runs.
func (d *Deadline) Extend(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.At = d.At.Add(by)
}

// Deadline implements [context.Context].
func (d *Deadline) Deadline() (time.Time, bool) {
	if at, ok := d.Parent.Deadline(); ok && at.Before(d.At) {
		return at, true
	}
	return d.At, true
}

// Done implements [context.Context].
func (d *Deadline) Done() <-chan struct{} { return d.arm().Done() }

// Err implements [context.Context].
func (d *Deadline) Err() error {
	d.mu.Lock()
	idle := d.set == nil && !d.ended
	d.mu.Unlock()
	if idle && time.Now().Before(d.At) {
		return d.Parent.Err()
	}
	return d.arm().Err()
}

// Value implements [context.Context].
func (d *Deadline) Value(key any) any {
	d.mu.Lock()
	set := d.set
	d.mu.Unlock()
	if set != nil {
		return set.Value(key)
	}
	return d.Parent.Value(key)
}

func (d *Deadline) arm() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.set == nil {
		d.set, d.cancel = context.WithDeadline(d.Parent, d.At)
		if d.ended {
			d.cancel()
		} else {
			d.unwatch = watch(d.Parent)
		}
	}
	return d.set
}
