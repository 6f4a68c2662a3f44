package httpapi

import (
	"context"
	"sync"
	"time"
)

// deadline is a context.WithDeadline that starts its timer on the first call of Done. A request that is
// refused from memory never calls it, and the timer would be the most expensive part of that request.
//
// The context ends at a given time, with its parent, or when end is called. end must be called. Once the
// timer runs, all methods are those of the standard context; before that they are the parent's, except
// that Err also checks the clock. The first call of Done also has the connection watched, see [watch]: before
// it, the context does not end when the client leaves.
type deadline struct {
	parent context.Context
	at     time.Time

	mu      sync.Mutex
	set     context.Context // the standard context; nil until Done is called
	cancel  context.CancelFunc
	unwatch func() // ends the watch for the client's leaving
	ended   bool
}

var _ context.Context = (*deadline)(nil)

// end ends the context: the work is over.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.set != nil && !d.ended {
		d.cancel()
		d.unwatch()
	}
	d.ended = true
}

// extend postpones the end. It has no effect once the timer runs.
func (d *deadline) extend(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = d.at.Add(by)
}

// Deadline implements [context.Context].
func (d *deadline) Deadline() (time.Time, bool) {
	if at, ok := d.parent.Deadline(); ok && at.Before(d.at) {
		return at, true
	}
	return d.at, true
}

// Done implements [context.Context].
func (d *deadline) Done() <-chan struct{} { return d.arm().Done() }

// Err implements [context.Context].
func (d *deadline) Err() error {
	d.mu.Lock()
	idle := d.set == nil && !d.ended
	d.mu.Unlock()
	if idle && time.Now().Before(d.at) {
		return d.parent.Err()
	}
	return d.arm().Err()
}

// Value implements [context.Context].
func (d *deadline) Value(key any) any {
	d.mu.Lock()
	set := d.set
	d.mu.Unlock()
	if set != nil {
		return set.Value(key)
	}
	return d.parent.Value(key)
}

func (d *deadline) arm() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.set == nil {
		d.set, d.cancel = context.WithDeadline(d.parent, d.at)
		if d.ended {
			d.cancel()
		} else {
			d.unwatch = watch(d.parent)
		}
	}
	return d.set
}
