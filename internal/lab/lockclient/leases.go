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

// held is a lease that was granted. It is kept after its release, too: what a second release does is a question to the
// mechanism.
type held struct {
	lock.Lease
	cancel     context.CancelFunc // frees its context
	notifiedAt atomic.Int64
}

// newScope returns the context of an acquisition and of its lease. It ends with the request until unlink is called: a
// granted lease outlives its request.
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
	faults, err := lock.NewFaults(what.Faults, nil)
	if err != nil {
		return nil, Grant{}, err
	}
	g := Grant{Asked: now()}
	l, err := locker.Acquire(lock.WithFaults(ctx, faults), what.Key, lock.Options{Wait: what.Wait, TTL: what.TTL})
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

func (c *child) release(ctx context.Context, of Lease) (noResult, error) {
	h, err := c.lease(of)
	if err != nil {
		return noResult{}, err
	}
	err = lock.Release(ctx, h)
	h.cancel()
	return noResult{}, err
}

func (c *child) told(_ context.Context, of Lease) (at int64, err error) {
	h, err := c.lease(of)
	if err != nil {
		return 0, err
	}
	return h.told(), nil
}

// told is when the holder was told of the loss; 0: it was not.
func (h *held) told() int64 {
	select {
	case <-h.Lost():
		h.notifiedAt.CompareAndSwap(0, now()) // it was told just now
		return h.notifiedAt.Load()
	default:
		return 0
	}
}

func (c *child) awaitLoss(ctx context.Context, of Lease) (at int64, err error) {
	h, err := c.lease(of)
	if err != nil {
		return 0, err
	}
	select {
	case <-h.Lost():
		return h.told(), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// now is a time as in an [eventlog.Event].
func now() int64 { return time.Now().UnixNano() }

// panic is a request whose work panics, as in a web server.
func (c *child) panic(request context.Context, what Panic) (p Panicked, err error) {
	ctx, unlink, cancel := c.newScope(request, what.Acquire)
	defer unlink()
	l, g, err := c.acquireLock(ctx, what.Acquire)
	if err != nil {
		cancel()
		return Panicked{Grant: g}, err
	}
	g = c.register(l, g, cancel)
	return Panicked{Grant: g, Panic: recoverPanic(func() { handleOrder(ctx, l, what) })}, nil
}

// recoverPanic runs work as a web framework does: it recovers a panic, and returns its text.
func recoverPanic(work func()) (caught string) {
	defer func() {
		if p := recover(); p != nil {
			caught = fmt.Sprint(p)
		}
	}()
	work()
	return ""
}

// handleOrder is work under a lock that panics.
func handleOrder(ctx context.Context, l lock.Lease, what Panic) {
	release := func() { _ = lock.Release(ctx, l) } // the event log records its result
	if what.Deferred {
		defer release()
	}
	pause(ctx, what.Hold)
	failingCall()
	if !what.Deferred {
		release()
	}
}

// failingCall panics.
func failingCall() { panic("the inventory answered with something unexpected") }
