package locktest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"seckill/internal/lock"
)

// queued is a waiter in a process of its own.
type queued struct {
	line   *Line // nil where processes have none
	cancel context.CancelFunc
	got    <-chan outcome
}

// line keeps who got in, in order.
type order struct {
	mu  sync.Mutex
	who []int
}

func (o *order) add(i int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.who = append(o.who, i)
}

func (o *order) list() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.who)
}

// enqueue starts n waiters one after the other, each in a process of its own, and
// calls in with the place of each who gets the lock.
func (t *trial) enqueue(n int, in func(i int, l lock.Lease)) []queued {
	waiters := make([]queued, n)
	for i := range waiters {
		ctx, cancel := context.WithCancel(t.ctx)
		w := queued{cancel: cancel}
		p := lock.Locker(nil)
		if t.Remote {
			p, w.line = t.wired()
			w.line.Watch(nil)
		} else {
			p = t.process()
		}
		got := make(chan outcome, 1)
		go func() {
			lease, err := t.take(ctx, p, lock.Options{TTL: longLease, Wait: trialLimit})
			if err == nil && in != nil {
				in(i, lease)
			}
			got <- outcome{lease, err, time.Now()}
		}()
		w.got = got
		waiters[i] = w
		t.inLine(p, w, i+1)
	}
	return waiters
}

// inLine waits until the nth waiter has its place: until the store says so, where
// it can tell, and else until everything that the waiter said has been answered.
func (t *trial) inLine(p lock.Locker, w queued, n int) {
	inspector, ok := p.(lock.Inspector)
	settled := 0
	t.until("a waiter to be in line", func() bool {
		if len(w.got) > 0 {
			return true // it is in already; the check will notice
		}
		if t.Store.Waiting != nil {
			waiting, err := t.Store.Waiting(t.ctx, t.key)
			return err == nil && waiting >= n
		}
		if ok {
			if state, err := inspector.Inspect(t.ctx, t.key); err == nil && len(state.Queue) >= n {
				return true
			}
		}
		if w.line == nil || w.line.Received() > 0 && w.line.Idle() {
			settled++
		} else {
			settled = 0
		}
		return settled > 20 // polls are a millisecond apart
	})
}

// freezes stops a waiter's process where it has a line, and waits until nothing of
// it is under way.
func (w queued) freeze() {
	if w.line == nil {
		return
	}
	w.line.Freeze()
	for limit := time.Now().Add(tolerance); !w.line.Idle() && time.Now().Before(limit); {
		time.Sleep(time.Millisecond)
	}
}

func (w queued) thaw() {
	if w.line != nil {
		w.line.Thaw()
	}
}

// place is how long a dead waiter may be in the way.
func (t *trial) place() time.Duration { return cmp.Or(t.Place, time.Second) }

// inOrder lets eight waiters through. The first is held up for a moment when its
// turn comes, which is where a lock without an order gives itself away. disturb
// works while the lock is being released.
func (t *trial) inOrder(dies func(i int) bool, release func(lock.Lease)) {
	const n = 8
	holder := t.process()
	held := t.hold(holder, lock.Options{TTL: longLease})
	var served order
	waiters := t.enqueue(n, func(i int, l lock.Lease) {
		served.add(i)
		if dies(i) {
			_ = l.Extend(t.ctx, shortLease) // the store is asked below where this cannot be done
			l.Abandon()
			if t.Store.Shorten != nil {
				_ = t.Store.Shorten(t.ctx, t.key, shortLease)
			}
			return
		}
		_ = l.Release(t.ctx)
	})
	defer func() {
		for _, w := range waiters {
			w.cancel()
		}
	}()
	if early := served.list(); len(early) > 0 {
		t.violated("%v got in while the lock was held", early)
	}
	waiters[0].freeze()
	release(held)
	t.pass(min(100*time.Millisecond, t.place()/4))
	waiters[0].thaw()
	for i, w := range waiters {
		if got := <-w.got; got.err != nil {
			t.violated("waiter %d of %d did not get in: %v", i, n, got.err)
		}
	}
	if who := served.list(); !slices.IsSorted(who) {
		t.violated("who came in the order 0 to %d was served in the order %v", n-1, who)
	}
	t.emptyInTheEnd("after a queue of eight")
}

func servesInOrderAcrossProcesses(t *trial) {
	t.inOrder(func(int) bool { return false }, t.release)
	t.inOrder(func(i int) bool { return i%3 == 1 }, t.release)
}

func queueSurvivesPause(t *trial) {
	t.alone()
	t.need(t.Store.Pause != nil, "way to pause its server")
	t.inOrder(func(int) bool { return false }, func(l lock.Lease) {
		t.check(t.Store.Pause(t.ctx, 300*time.Millisecond))
		t.release(l)
	})
	t.mustBeFree(t.process(), "after a queue that saw a pause")
}

// alone moves the trial to a server of its own.
func (t *trial) alone() {
	if t.Alone == nil {
		return
	}
	other := t.Alone(t.tb)
	t.Process, t.Store = other.Process, other.Store
}

// evictsDeadWaiters has one waiter give up and three die: the first, one in the
// middle and the last. Those who live get in all the same.
func evictsDeadWaiters(t *trial) {
	const n = 7
	dead, gone, live := []int{0, 3, 6}, 2, []int{1, 4, 5}
	if !t.Remote {
		dead, live = nil, []int{0, 1, 3, 4, 5, 6} // nobody dies alone in a process
	}
	held := t.hold(t.process(), lock.Options{TTL: longLease})
	var served order
	waiters := t.enqueue(n, func(i int, l lock.Lease) {
		if i := slices.Index(live, i); i >= 0 {
			served.add(i)
		}
		_ = l.Release(t.ctx)
	})
	defer func() {
		for _, w := range waiters {
			w.cancel()
		}
	}()
	if early := served.list(); len(early) > 0 {
		t.violated("%v got in while the lock was held", early)
	}
	for _, i := range dead {
		waiters[i].freeze()
	}
	thaw := sync.OnceFunc(func() {
		for _, i := range dead {
			waiters[i].cancel()
			waiters[i].thaw()
		}
	})
	defer thaw()
	waiters[gone].cancel()
	if got := <-waiters[gone].got; !errors.Is(got.err, context.Canceled) {
		t.violated("a waiter that gave up was told %v", got.err)
	}
	t.release(held)
	limit := 2*t.place() + time.Second // two dead ones stand ahead of somebody who lives
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for _, i := range live {
		select {
		case got := <-waiters[i].got:
			if got.err != nil {
				t.violated("waiter %d, which lives, did not get in: %v", i, got.err)
			}
		case <-deadline.C:
			t.violated("%v after the release the dead still stand in the way of waiter %d", limit, i)
		}
	}
	thaw()
	for _, i := range dead {
		<-waiters[i].got
	}
	t.emptyInTheEnd("after a queue with dead waiters in it")
}

// emptyInTheEnd gives what is left of dead waiters as long as a dead waiter's
// place lasts.
func (t *trial) emptyInTheEnd(when string) {
	if t.Store.Left == nil {
		return
	}
	for limit := time.Now().Add(t.place() + time.Second); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if left, err := t.Store.Left(t.ctx); err == nil && len(left) == 0 {
			return
		}
	}
	t.mustBeEmpty(when)
}
