package lockclient

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lock"
)

// held is a lease that was granted. It is kept after its release, too: what a second release
// does is a question to the mechanism.
type held struct {
	lock.Lease
	cancel     context.CancelFunc // frees its context
	notifiedAt atomic.Int64
}

// newScope returns the context of an acquisition and of its lease. It ends with the request
// until unlink is called: a granted lease outlives its request.
func (c *child) newScope(request context.Context, what Acquire) (_ context.Context, unlink func() bool, cancel context.CancelFunc) {
	ctx := eventlog.WithWho(c.life, c.who(what.Who))
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

// options checks what only this package knows, and leaves the rest to the mechanism.
func options(what Acquire) (lock.Options, *lock.Faults, error) {
	if what.Timeout < 0 {
		return lock.Options{}, nil, invalid("the timeout is negative: %v", what.Timeout)
	}
	faults, err := lock.NewFaults(what.Faults, nil)
	return lock.Options{Wait: what.Wait, TTL: what.TTL}, faults, err
}

func (c *child) acquire(request context.Context, what Acquire) (Grant, error) {
	ctx, unlink, cancel := c.newScope(request, what)
	l, g, err := c.acquireLock(ctx, what)
	unlink()
	if err != nil {
		cancel()
		return g, err
	}
	return c.register(l, g, cancel), nil
}

// acquireLock acquires under a context that names the client.
func (c *child) acquireLock(ctx context.Context, what Acquire) (lock.Lease, Grant, error) {
	locker, err := c.lockerFor(what)
	if err != nil {
		return nil, Grant{}, err
	}
	opts, faults, err := options(what)
	if err != nil {
		return nil, Grant{}, err
	}
	g := Grant{Asked: now()}
	l, err := locker.Acquire(lock.WithFaults(ctx, faults), what.Key, opts)
	g.At = now()
	if err != nil {
		return nil, g, err
	}
	g.Owner, g.Token = l.Owner(), l.Token()
	return l, g, nil
}

// register gives a lease its name.
func (c *child) register(l lock.Lease, g Grant, cancel context.CancelFunc) Grant {
	g.Lease = Lease(c.name())
	h := &held{Lease: l, cancel: cancel}
	context.AfterFunc(l.Context(), func() {
		if errors.Is(context.Cause(l.Context()), lock.ErrReleased) {
			return
		}
		select { // the context ends just before Lost is closed, or with the context of the acquisition
		case <-l.Lost():
			h.notifiedAt.CompareAndSwap(0, now())
		case <-c.life.Done():
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leases[g.Lease] = h
	return g
}

// lease returns a lease by its name.
func (c *child) lease(name Lease) (*held, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h, ok := c.leases[name]; ok {
		return h, nil
	}
	return nil, invalid("lock client %s has no lease %q", c.config.Name, name)
}

func (c *child) release(ctx context.Context, on onLease) (noResult, error) {
	h, err := c.lease(on.Lease)
	if err != nil {
		return noResult{}, err
	}
	err = lock.Release(ctx, h)
	h.cancel()
	return noResult{}, err
}

// undo releases what a cancelled request has obtained.
func (c *child) undo(result any) {
	switch r := result.(type) {
	case Grant:
		if h, err := c.lease(r.Lease); err == nil {
			_ = lock.Release(c.life, h) // no one is left to report it to
			h.cancel()
		}
	case Reading:
		if t := c.takeTransaction(r.Tx); t != nil {
			t.cancel()
		}
	}
}

func (c *child) extend(ctx context.Context, on onLease) (noResult, error) {
	h, err := c.lease(on.Lease)
	if err != nil {
		return noResult{}, err
	}
	return noResult{}, h.Extend(ctx, time.Duration(on.TTL))
}

func (c *child) abandon(_ context.Context, on onLease) (noResult, error) {
	h, err := c.lease(on.Lease)
	if err != nil {
		return noResult{}, err
	}
	lock.Abandon(h.Lease)
	h.cancel()
	return noResult{}, nil
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
		h.notifiedAt.CompareAndSwap(0, now()) // it was told just now
		s.NotifiedAt, s.Cause = h.notifiedAt.Load(), report(context.Cause(h.Context()))
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
		return lock.State{}, fmt.Errorf("lockclient: %s does not say who holds a key: %w", of.Lock, errors.ErrUnsupported)
	}
	return i.Inspect(ctx, of.Key)
}

// now is a time as in an [eventlog.Event].
func now() int64 { return time.Now().UnixNano() }
