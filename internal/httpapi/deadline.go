package httpapi

import (
	"context"
	"sync"
	"time"
)

// deadline is a context.WithTimeout that sets its timer when somebody first waits
// for it. A request that is turned away from memory never waits, and the timer
// would be the most expensive thing about it.
//
// It ends at a time, or before it with its parent or when end is called, which it must
// be. Once set, everything is the standard context's; before, the parent's, except
// that Err also looks at the clock.
type deadline struct {
	parent context.Context
	at     time.Time

	mu     sync.Mutex
	set    context.Context // nil: not yet
	cancel context.CancelFunc
	ended  bool
}

var _ context.Context = (*deadline)(nil)

// end ends the context: the work is over.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.set != nil {
		d.cancel()
	}
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
		}
	}
	return d.set
}
