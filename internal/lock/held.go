package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Held is the [Lease] that mechanisms return. It keeps the bookkeeping that is
// the same for all of them: the context and its cause, the one-time release, the
// time that is left.
type Held struct {
	grant  Grant
	ctx    context.Context
	cancel context.CancelCauseFunc
	lost   chan struct{}
	until  atomic.Pointer[time.Time] // nil: no expiry

	extending sync.Mutex

	mu    sync.Mutex
	state heldState
}

type heldState uint8

const (
	held heldState = iota
	lost
	unknown  // a release had no answer; it may be tried again
	released // final
)

// Grant is what a mechanism obtained.
type Grant struct {
	Key   string
	Owner Owner
	Token uint64
	// Until is when the lease ends if nothing renews it, counted from before
	// the attempt that won it. The zero time: never.
	Until time.Time
	// Release gives the grant back. It runs also after a loss was signalled, so
	// that the store's own word decides the error. After it returned an
	// ErrUnavailable it may be called again, and then must not be fooled by its
	// own first call having got through.
	Release func(ctx context.Context) error
	// Extend asks the store for ttl from now and returns when the lease then ends
	// by this process's clock, counted from before the attempt. nil: the mechanism
	// cannot, see [Lease.Extend].
	Extend func(ctx context.Context, ttl time.Duration) (until time.Time, err error)
	// TTL is the lease that was asked for, for an Extend without one. 0: a watchdog
	// renews it, or it has no end.
	TTL time.Duration
	// Stop ends whatever works for this lease in the background. It is called
	// exactly once, before Release or on Abandon, and must not wait for Release.
	// May be nil.
	Stop func()
}

// NewHeld returns a lease on what was granted. Its context derives from ctx.
func NewHeld(ctx context.Context, g Grant) *Held {
	h := &Held{grant: g, lost: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	if !g.Until.IsZero() {
		h.until.Store(&g.Until)
	}
	return h
}

var _ Lease = (*Held)(nil)

// Key implements [Lease].
func (h *Held) Key() string { return h.grant.Key }

// Owner implements [Lease].
func (h *Held) Owner() Owner { return h.grant.Owner }

// Token implements [Lease].
func (h *Held) Token() uint64 { return h.grant.Token }

// Lost implements [Lease].
func (h *Held) Lost() <-chan struct{} { return h.lost }

// Context implements [Lease].
func (h *Held) Context() context.Context { return h.ctx }

// Remaining implements [Lease].
func (h *Held) Remaining() time.Duration {
	until := h.until.Load()
	if until == nil {
		return NoExpiry
	}
	return time.Until(*until)
}

// Renewed records that the lease now ends at until.
func (h *Held) Renewed(until time.Time) { h.until.Store(&until) }

// Extend implements [Lease].
func (h *Held) Extend(ctx context.Context, ttl time.Duration) error {
	switch {
	case h.grant.Extend == nil:
		return fmt.Errorf("lock: this mechanism cannot extend a lease: %w", errors.ErrUnsupported)
	case ttl != 0 && h.grant.TTL == 0:
		return invalid("the lease on %q is not a fixed one; there is nothing to extend", h.grant.Key)
	case ttl != 0 && (ttl < MinTTL || ttl > MaxTTL):
		return invalid("the lease is %v; %v to %v", ttl, MinTTL, MaxTTL)
	}
	if err := h.stillHeld(); err != nil {
		return err
	}
	if ttl == 0 {
		ttl = h.grant.TTL
	}
	h.extending.Lock() // what is believed last is to be what the store did last
	defer h.extending.Unlock()
	start := time.Now()
	until, err := h.grant.Extend(ctx, ttl)
	switch {
	case errors.Is(err, ErrUnavailable):
		if ttl != 0 && h.Remaining() > time.Until(start.Add(ttl)) {
			h.Renewed(start.Add(ttl)) // it may have been carried out
		}
		return err
	case errors.Is(err, ErrExpired) || errors.Is(err, ErrLost):
		h.Lose(err)
		return err
	case err != nil:
		return err
	}
	if !until.IsZero() {
		h.Renewed(until)
	}
	return h.stillHeld() // a release or a loss may have come between
}

// stillHeld is nil for a lease that was neither lost nor released.
func (h *Held) stillHeld() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch h.state {
	case held:
		return nil
	case lost:
		return context.Cause(h.ctx)
	}
	return ErrNotHeld
}

// Lose tells the holder, once, that it no longer holds the key and why. After a
// release it does nothing. It reports whether the holder was told by this call.
func (h *Held) Lose(cause error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != held {
		return false
	}
	h.state = lost
	h.cancel(cause) // first: who sees Lost closed finds the cause
	close(h.lost)
	return true
}

// Release implements [Lease].
func (h *Held) Release(ctx context.Context) error {
	if !h.end() {
		return ErrNotHeld
	}
	h.cancel(ErrReleased)
	err := h.grant.Release(ctx)
	if err != nil && ctx.Err() != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrExpired) && !errors.Is(err, ErrLost) {
		// Cut short: the command may have got through all the same.
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if errors.Is(err, ErrUnavailable) {
		h.mu.Lock()
		h.state = unknown
		h.mu.Unlock()
	}
	return err
}

// Abandon implements [Lease].
func (h *Held) Abandon() {
	if h.end() {
		h.cancel(ErrReleased)
	}
}

// end makes the lease final. It reports whether this call did.
func (h *Held) end() bool {
	h.mu.Lock()
	was := h.state
	h.state = released
	h.mu.Unlock()
	if was == released {
		return false
	}
	if was != unknown && h.grant.Stop != nil {
		h.grant.Stop()
	}
	return true
}
