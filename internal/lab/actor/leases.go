package actor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"seckill/internal/lock"
	"seckill/internal/trace"
)

// held is a lease that was granted. It is kept after its release too: a second
// release is a question to the mechanism.
type held struct {
	lock.Lease
	forget context.CancelFunc // ends what its context costs
	toldAt atomic.Int64
}

// scope is the context of an acquisition and of its lease. It ends with the request
// that asks for it until it is unlinked: a lease that was granted outlives that.
func (c *child) scope(request context.Context, what Acquire) (_ context.Context, unlink func() bool, cancel context.CancelFunc) {
	ctx := trace.WithWho(c.life, c.who(what.Who))
	if what.Owner != "" {
		ctx = lock.WithOwner(ctx, c.owner(what.Owner))
	}
	if what.Timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, what.Timeout)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	return ctx, context.AfterFunc(request, cancel), cancel
}

func (c *child) who(given string) string {
	if given != "" {
		return given
	}
	return c.config.Name
}

// options checks what only this package knows, and makes the rest what a mechanism
// checks.
func options(what Acquire) (lock.Options, error) {
	if what.Timeout < 0 {
		return lock.Options{}, invalid("the timeout is negative: %v", what.Timeout)
	}
	faults, err := lock.NewFaults(what.Faults, nil)
	return lock.Options{Wait: what.Wait, TTL: what.TTL, Faults: faults}, err
}

func (c *child) acquire(request context.Context, what Acquire) (Grant, error) {
	ctx, unlink, cancel := c.scope(request, what)
	l, g, err := c.obtain(ctx, what)
	unlink()
	if err != nil {
		cancel()
		return g, err
	}
	return c.keep(l, g, cancel), nil
}

// obtain acquires under a context that says who does.
func (c *child) obtain(ctx context.Context, what Acquire) (lock.Lease, Grant, error) {
	locker, err := c.locker(what.Lock, what.Shared)
	if err != nil {
		return nil, Grant{}, err
	}
	opts, err := options(what)
	if err != nil {
		return nil, Grant{}, err
	}
	g := Grant{Asked: now()}
	l, err := locker.Acquire(ctx, what.Key, opts)
	g.At = now()
	if err != nil {
		return nil, g, err
	}
	g.Owner, g.Token = l.Owner(), l.Token()
	return l, g, nil
}

// keep gives a lease its name.
func (c *child) keep(l lock.Lease, g Grant, cancel context.CancelFunc) Grant {
	g.Lease = Lease(c.name())
	h := &held{Lease: l, forget: cancel}
	context.AfterFunc(l.Context(), func() {
		if errors.Is(context.Cause(l.Context()), lock.ErrReleased) {
			return
		}
		select { // the context ends a moment before, or with that of the acquisition
		case <-l.Lost():
			h.toldAt.CompareAndSwap(0, now())
		case <-c.life.Done():
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leases[g.Lease] = h
	return g
}

// lease finds one by its name.
func (c *child) lease(name Lease) (*held, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h, ok := c.leases[name]; ok {
		return h, nil
	}
	return nil, invalid("actor %s has no lease %q", c.config.Name, name)
}

func (c *child) release(ctx context.Context, on onLease) (nothing, error) {
	h, err := c.lease(on.Lease)
	if err != nil {
		return nothing{}, err
	}
	err = lock.Release(ctx, h)
	h.forget()
	return nothing{}, err
}

// drop gives back what a request obtained that nobody waits for any more.
func (c *child) drop(result any) {
	switch r := result.(type) {
	case Grant:
		if h, err := c.lease(r.Lease); err == nil {
			_ = lock.Release(c.life, h) // nobody is left to be told
			h.forget()
		}
	case Reading:
		if t := c.transaction(r.Tx); t != nil {
			t.cancel()
		}
	}
}

func (c *child) extend(ctx context.Context, on onLease) (nothing, error) {
	h, err := c.lease(on.Lease)
	if err != nil {
		return nothing{}, err
	}
	return nothing{}, h.Extend(ctx, time.Duration(on.TTL))
}

func (c *child) abandon(_ context.Context, on onLease) (nothing, error) {
	h, err := c.lease(on.Lease)
	if err != nil {
		return nothing{}, err
	}
	h.Abandon()
	h.forget()
	return nothing{}, nil
}

func (c *child) status(_ context.Context, on onLease) (Status, error) {
	h, err := c.lease(on.Lease)
	if err != nil {
		return Status{}, err
	}
	return h.status(), nil
}

func (h *held) status() Status {
	s := Status{Remaining: h.Remaining()}
	select {
	case <-h.Lost():
		h.toldAt.CompareAndSwap(0, now()) // it was told this very moment
		s.ToldAt, s.Cause = h.toldAt.Load(), report(context.Cause(h.Context()))
	default:
		s.Held = !errors.Is(context.Cause(h.Context()), lock.ErrReleased)
	}
	return s
}

func (c *child) awaitLoss(ctx context.Context, on onLease) (Status, error) {
	h, err := c.lease(on.Lease)
	if err != nil {
		return Status{}, err
	}
	select {
	case <-h.Lost():
		return h.status(), nil
	case <-ctx.Done():
		return h.status(), ctx.Err()
	}
}

func (c *child) inspect(ctx context.Context, of onKey) (lock.State, error) {
	l, err := c.locker(of.Lock, false)
	if err != nil {
		return lock.State{}, err
	}
	i, ok := l.(lock.Inspector)
	if !ok {
		return lock.State{}, fmt.Errorf("actor: %s does not say who holds a key: %w", of.Lock, errors.ErrUnsupported)
	}
	return i.Inspect(ctx, of.Key)
}

// now is a time as trace has it.
func now() int64 { return time.Now().UnixNano() }
