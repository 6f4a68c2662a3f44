package lockclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
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

func (c *child) nest(request context.Context, what Nest) (n Nested, err error) {
	if what.Owner == "" {
		what.Owner = c.name() // the same for both, and nobody else's
	}
	ctx, unlink, cancel := c.newScope(request, what.Acquire)
	defer cancel()
	defer unlink()
	outer, g, err := c.acquireLock(ctx, what.Acquire)
	n.Outer = g
	if err != nil {
		return n, err
	}
	defer func() { n.Released[1] = report(lock.Release(ctx, outer)) }()

	inner := what.Acquire
	inner.Wait, inner.TTL = what.InnerWait, what.InnerTTL
	again, g, err := c.acquireLock(outer.Context(), inner)
	n.Inner, n.Refused = g, report(err)
	if err == nil {
		pause(request, what.Hold)
		n.Released[0] = report(lock.Release(ctx, again))
	}
	return n, nil
}

// maxWorkers limits a loop: more workers than that show nothing new.
const maxWorkers = 1000

// loop ends when every worker has ended.
func (c *child) loop(request context.Context, what Loop) (Looped, error) {
	if what.Workers == 0 {
		what.Workers = 1
	}
	switch {
	case what.For <= 0 && what.Times <= 0:
		return Looped{}, invalid("a loop needs an end: for how long, or how many times")
	case what.Workers < 0 || what.Workers > maxWorkers:
		return Looped{}, invalid("a loop of %d workers; 1 to %d", what.Workers, maxWorkers)
	case min(what.Hold, what.Think, what.For) < 0 || what.Times < 0:
		return Looped{}, invalid("a duration or a number of a loop is negative")
	}
	if _, err := c.lockerFor(what.Acquire); err != nil {
		return Looped{}, err
	}
	if _, _, err := options(what.Acquire); err != nil {
		return Looped{}, err
	}
	all := &loopResults{Looped: Looped{Refused: map[Kind]int{}, Unreleased: map[Kind]int{}}}
	var contenders sync.WaitGroup
	begin := make(chan struct{})
	for worker := range what.Workers {
		contenders.Go(func() {
			<-begin
			c.runWorker(request, what, worker, all)
		})
	}
	close(begin)
	contenders.Wait()
	slices.SortStableFunc(all.Turns, func(a, b Turn) int { return int(a.At - b.At) })
	return all.Looped, request.Err()
}

// loopResults collects the results of all workers.
type loopResults struct {
	mu sync.Mutex
	Looped
}

// runWorker is one worker of a loop.
func (c *child) runWorker(request context.Context, what Loop, worker int, all *loopResults) {
	if what.Workers > 1 {
		what.Who = c.who(what.Who) + " " + strconv.Itoa(worker+1)
	}
	began := time.Now()
	for n := 0; (what.Times == 0 || n < what.Times) && (what.For == 0 || time.Since(began) < what.For); n++ {
		if request.Err() != nil {
			return
		}
		turn, acquired, err := c.acquireOnce(request, what)
		turn.Worker = worker
		all.mu.Lock()
		switch {
		case !acquired:
			all.Refused[KindOf(err)]++
		case err != nil:
			all.Unreleased[KindOf(err)]++
			fallthrough
		default:
			all.Turns = append(all.Turns, turn)
		}
		all.mu.Unlock()
		pause(request, what.Think)
	}
}

// acquireOnce acquires, holds and releases once.
func (c *child) acquireOnce(request context.Context, what Loop) (t Turn, acquired bool, err error) {
	ctx, unlink, cancel := c.newScope(request, what.Acquire)
	defer cancel()
	defer unlink()
	l, g, err := c.acquireLock(ctx, what.Acquire)
	t.Asked, t.At, t.Token = g.Asked, g.At, g.Token
	if err != nil {
		return t, false, err
	}
	pause(request, what.Hold)
	t.Releasing = now()
	err = lock.Release(ctx, l)
	t.Released = now()
	return t, true, err
}
