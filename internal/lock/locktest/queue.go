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

// queuedWaiter is a waiter in a process of its own.
type queuedWaiter struct {
	network *Network // nil if processes have no connections
	cancel  context.CancelFunc
	got     <-chan outcome
}

// serviceOrder records the waiters in the order in which they got the lock.
type serviceOrder struct {
	mu  sync.Mutex
	who []int
}

func (o *serviceOrder) add(i int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.who = append(o.who, i)
}

func (o *serviceOrder) list() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.who)
}

// enqueue starts n waiters one after the other, each in a process of its own. It calls
// in with the number of every waiter that gets the lock.
func (t *trial) enqueue(n int, in func(i int, l lock.Lease)) []queuedWaiter {
	waiters := make([]queuedWaiter, n)
	for i := range waiters {
		ctx, cancel := context.WithCancel(t.ctx)
		w := queuedWaiter{cancel: cancel}
		p := lock.Locker(nil)
		if t.Remote {
			p, w.network = t.processOnNetwork()
			w.network.Observe(nil)
		} else {
			p = t.process()
		}
		got := make(chan outcome, 1)
		t.background.Go(func() {
			lease, err := t.acquire(ctx, p, lock.Options{TTL: t.long, Wait: t.limit})
			if err == nil && in != nil {
				in(i, lease)
			}
			got <- outcome{lease, err, time.Now()}
		})
		w.got = got
		waiters[i] = w
		t.awaitQueued(p, w, i+1)
		time.Sleep(time.Millisecond) // in virtual time all of them would have come at one moment
	}
	return waiters
}

// awaitQueued waits until the nth waiter is in the queue. If neither the store nor the locker
// counts waiters, it waits until every request of the waiter has been answered: until the
// waiter was silent at 20 looks in a row, or at 100 in all. On a busy machine the requests of
// a waiter that polls leave no longer pauses.
func (t *trial) awaitQueued(p lock.Locker, w queuedWaiter, n int) {
	inspector, counts := p.(lock.Inspector)
	inRow, inAll := 0, 0
	t.eventually("a waiter to be in the queue", func() bool {
		if len(w.got) > 0 {
			return true // it has the lock already; the check will notice
		}
		if t.Store.Waiting != nil {
			waiting, err := t.Store.Waiting(t.ctx, t.key)
			return err == nil && waiting >= n
		}
		if counts {
			state, err := inspector.Inspect(t.ctx, t.key)
			if err == nil && len(state.Queue) >= n {
				return true
			}
			counts = err != nil || state.Waiting != lock.WaitingUnknown // a look must not cost round trips for nothing
		}
		if w.network == nil || w.network.Received() > 0 && w.network.Idle() {
			inRow++
			inAll++
		} else {
			inRow = 0
		}
		return inRow > 20 || inAll > 100 // a millisecond apart
	})
}

// freeze stops a waiter's process, if it has a network, and waits until none of its
// requests is under way.
func (w queuedWaiter) freeze() {
	if w.network == nil {
		return
	}
	w.network.Freeze()
	for limit := time.Now().Add(time.Minute); !w.network.Idle() && time.Now().Before(limit); {
		time.Sleep(time.Millisecond)
	}
}

func (w queuedWaiter) unfreeze() {
	if w.network != nil {
		w.network.Unfreeze()
	}
}

// deadWaiterTimeout is how long a dead waiter may delay the others.
func (t *trial) deadWaiterTimeout() time.Duration { return cmp.Or(t.DeadWaiterTimeout, time.Second) }

// mustServeInOrder has eight waiters get the lock. The first is frozen for a moment when
// its turn comes: a lock without an order then serves another one first. dies selects
// the waiters that die as holders; release releases the first lease.
func (t *trial) mustServeInOrder(dies func(i int) bool, release func(lock.Lease)) {
	const n = 8
	holder := t.process()
	held := t.mustAcquire(holder, lock.Options{TTL: t.long})
	var served serviceOrder
	waiters := t.enqueue(n, func(i int, l lock.Lease) {
		served.add(i)
		if dies(i) {
			_ = l.Extend(t.ctx, t.short) // if the mechanism cannot do this, the store does it below
			lock.Abandon(l)
			if t.Store.Shorten != nil {
				_ = t.Store.Shorten(t.ctx, t.key, t.short)
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
		t.violated("waiters %v got the lock while it was held", early)
	}
	waiters[0].freeze()
	defer waiters[0].unfreeze()
	release(held)
	t.sleep(min(100*time.Millisecond, t.deadWaiterTimeout()/4))
	waiters[0].unfreeze()
	for i, w := range waiters {
		if got := <-w.got; got.err != nil {
			t.violated("waiter %d of %d did not get the lock: %v", i, n, got.err)
		}
	}
	if who := served.list(); !slices.IsSorted(who) {
		t.violated("waiters that came in the order 0 to %d were served in the order %v", n-1, who)
	}
	t.mustBecomeEmpty("after a queue of eight")
}

func servesInOrderAcrossProcesses(t *trial) {
	t.mustServeInOrder(func(int) bool { return false }, t.mustRelease)
	t.mustServeInOrder(func(i int) bool { return i%3 == 1 }, t.mustRelease)
}

func queueSurvivesPause(t *trial) {
	t.useDedicatedServer()
	t.require(t.Store.Pause != nil, "way to pause the server")
	t.mustServeInOrder(func(int) bool { return false }, func(l lock.Lease) {
		t.checkErr(t.Store.Pause(t.ctx, 300*time.Millisecond))
		t.mustRelease(l)
	})
	t.mustBeFree(t.process(), "after a queue whose server paused")
}

// useDedicatedServer moves the trial to a server of its own.
func (t *trial) useDedicatedServer() {
	if t.Dedicated == nil {
		return
	}
	other := t.Dedicated(t.tb)
	t.Process, t.Store = other.Process, other.Store
}

// evictsDeadWaiters has one waiter give up and three die: the first, one in the middle
// and the last. The live ones must get the lock.
func evictsDeadWaiters(t *trial) {
	const n = 7
	dead, gone, live := []int{0, 3, 6}, 2, []int{1, 4, 5}
	if !t.Remote {
		dead, live = nil, []int{0, 1, 3, 4, 5, 6} // waiters of one process do not die one by one
	}
	held := t.mustAcquire(t.process(), lock.Options{TTL: t.long})
	var served serviceOrder
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
		t.violated("waiters %v got the lock while it was held", early)
	}
	for _, i := range dead {
		waiters[i].freeze()
	}
	unfreeze := sync.OnceFunc(func() {
		for _, i := range dead {
			waiters[i].cancel()
			waiters[i].unfreeze()
		}
	})
	defer unfreeze()
	waiters[gone].cancel()
	if got := <-waiters[gone].got; !errors.Is(got.err, context.Canceled) {
		t.violated("a waiter that gave up got the error %v", got.err)
	}
	t.mustRelease(held)
	limit := 2*t.deadWaiterTimeout() + t.within(time.Second) // two dead waiters are ahead of a live one
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for _, i := range live {
		select {
		case got := <-waiters[i].got:
			if got.err != nil {
				t.violated("live waiter %d did not get the lock: %v", i, got.err)
			}
		case <-deadline.C:
			t.violated("%v after the release dead waiters still delay waiter %d", limit, i)
		}
	}
	unfreeze()
	for _, i := range dead {
		<-waiters[i].got
	}
	t.mustBecomeEmpty("after a queue with dead waiters")
}

// mustBecomeEmpty is mustBeEmpty for a store that may keep dead waiters until their timeout. What a process sent before it
// was stopped may arrive after its waiter has left: that entry stays until it expires.
func (t *trial) mustBecomeEmpty(when string) {
	if t.Store.Leftovers == nil {
		return
	}
	for limit := time.Now().Add(t.deadWaiterTimeout() + 30*time.Second); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if left, err := t.Store.Leftovers(t.ctx); err == nil && len(left) == 0 {
			return
		}
	}
	t.mustBeEmpty(when)
}
