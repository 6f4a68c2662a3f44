package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Held is the [Lease] that mechanisms return. It does what is the same for all of
// them: the context and its cause, the single release, the time that is left.
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
	unknown  // the outcome of a release is unknown; it may be repeated
	released // final
)

// Grant is what a mechanism obtained.
type Grant struct {
	Key   string
	Owner Owner
	Token uint64
	// Handover says how the key came to the owner.
	Handover Handover
	// Until is when the lease ends if nothing renews it, counted from before the
	// attempt that acquired it. The zero time: never.
	Until time.Time
	// Release gives the key back. It is also called after a loss was signalled, so
	// that the store's answer decides the error. After it returned ErrUnavailable it
	// may be called again; it then has to recognise that its first call succeeded.
	Release func(ctx context.Context) error
	// Extend asks the store to end the lease ttl from now. It returns that end by this
	// process's clock, counted from before the attempt. nil: the mechanism cannot
	// extend, see [Lease.Extend].
	Extend func(ctx context.Context, ttl time.Duration) (until time.Time, err error)
	// TTL is the length of a fixed lease, which an Extend without a ttl uses. 0: a
	// watchdog renews the lease, or it has no end.
	TTL time.Duration
	// Stop ends the background work for this lease. It is called exactly once, before
	// Release or when the lease is abandoned, and must not wait for Release. May be
	// nil.
	Stop func()
}

// NewHeld returns the lease of a grant. Its context derives from ctx.
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

// Handover returns how the key came to its holder; see [HandoverOf].
func (h *Held) Handover() Handover { return h.grant.Handover }

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
	h.extending.Lock() // the last extension that is recorded must be the store's last
	defer h.extending.Unlock()
	start := time.Now()
	until, err := h.grant.Extend(ctx, ttl)
	switch {
	case errors.Is(err, ErrUnavailable):
		if ttl != 0 && h.Remaining() > time.Until(start.Add(ttl)) {
			h.Renewed(start.Add(ttl)) // the store may have carried it out
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
	return h.stillHeld() // it may have been released or lost meanwhile
}

// stillHeld returns nil for a lease that was neither lost nor released.
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

// Lose signals once to the holder that it no longer holds the key, and why. After a
// release it does nothing. It reports whether this call gave the signal.
func (h *Held) Lose(cause error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != held {
		return false
	}
	h.state = lost
	h.cancel(cause) // before close: a reader of Lost finds the cause
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
	decided := errors.Is(err, ErrUnavailable) || errors.Is(err, ErrExpired) || errors.Is(err, ErrLost)
	if err != nil && ctx.Err() != nil && !decided {
		// ctx ended; the server may have carried out the command all the same.
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if errors.Is(err, ErrUnavailable) {
		h.mu.Lock()
		h.state = unknown
		h.mu.Unlock()
	}
	return err
}

// end makes the release final and stops the background work. It reports false where an
// earlier call did so.
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
