package lockclient

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"seckill/internal/lock"
)

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
