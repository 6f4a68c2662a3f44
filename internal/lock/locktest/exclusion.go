package locktest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"seckill/internal/lock"
)

func excludesGoroutines(t *trial) {
	p := t.process()
	t.exclude(func(int) lock.Locker { return p })
}

func excludesProcesses(t *trial) {
	ps := []lock.Locker{t.process(), t.process(), t.process(), t.process()}
	t.exclude(func(i int) lock.Locker { return ps[i%len(ps)] })
}

// exclude releases sixteen contenders at once, first to try, then to wait.
func (t *trial) exclude(process func(i int) lock.Locker) {
	const contenders = 16
	var winners, others atomic.Int32
	var winner atomic.Pointer[lock.Lease]
	contend(contenders, func(i int) {
		lease, err := t.take(t.ctx, process(i), lock.Options{TTL: longLease})
		switch {
		case err == nil:
			winners.Add(1)
			winner.Store(&lease)
		case !errors.Is(err, lock.ErrNotAcquired):
			others.Add(1)
		}
	})
	if winners.Load() != 1 || others.Load() != 0 {
		t.violated("of %d who tried at once %d got the lock, %d failed otherwise", contenders, winners.Load(), others.Load())
	}
	t.release(*winner.Load())

	var inside, together, failed atomic.Int32
	contend(contenders, func(i int) {
		lease, err := t.take(t.ctx, process(i), lock.Options{TTL: longLease, Wait: trialLimit / 2})
		if err != nil {
			failed.Add(1)
			return
		}
		if inside.Add(1) > 1 {
			together.Add(1)
		}
		time.Sleep(time.Millisecond) // the work; long enough for another to walk in
		inside.Add(-1)
		if lease.Release(t.ctx) != nil {
			failed.Add(1)
		}
	})
	if together.Load() != 0 || failed.Load() != 0 {
		t.violated("of %d who waited %d met another inside, %d did not get in and out", contenders, together.Load(), failed.Load())
	}
}

func keepsKeysApart(t *trial) {
	p, q := t.rivals()
	one := t.holdKey(t.ctx, p, "seat:1", lock.Options{TTL: longLease})
	for _, key := range []string{"seat", "seat:2", "seat:1:count", "seat:11", "Seat:1", "座位:1"} {
		t.release(t.holdKey(t.ctx, q, key, lock.Options{TTL: longLease}))
	}
	t.release(one)
}

// servesInOrder lets somebody come along just as the lock is released to a waiter
// who cannot move for the moment.
func servesInOrder(t *trial) {
	holder, late := t.process(), t.process()
	if !t.Remote {
		t.need(t.Store.Waiting != nil, "way to count who waits")
		late = holder // processes that share no server share no queue
	}
	held := t.hold(holder, lock.Options{TTL: longLease})
	var first queued
	if t.Remote {
		first = t.enqueue(1, nil)[0]
	} else {
		first.got = t.start(t.ctx, holder, lock.Options{TTL: longLease, Wait: anyWait})
		t.inLine(holder, first, 1)
	}
	first.freeze()
	err := held.Release(t.ctx)
	overtook, tried := t.take(t.ctx, late, lock.Options{TTL: longLease})
	first.thaw()
	if err != nil {
		t.violated("the release failed: %v", err)
	}
	if tried == nil {
		_ = overtook.Release(t.ctx)
		<-first.got
		t.violated("who came last got in first")
	}
	got := <-first.got
	if got.err != nil {
		t.violated("the first in the queue did not get in: %v", got.err)
	}
	t.release(got.lease)
}

func ownerFromContext(t *trial) {
	p := t.process()
	owners := lock.NewOwners()
	mine := owners.New()
	a := t.holdAs(lock.WithOwner(t.ctx, mine), p, lock.Options{TTL: longLease})
	if a.Owner() != mine || a.Key() != t.key {
		t.violated("the lease is %s's on %q, not %s's on %q", a.Owner(), a.Key(), mine, t.key)
	}
	t.release(a)
	b := t.hold(p, lock.Options{TTL: longLease})
	t.release(b)
	c := t.hold(t.process(), lock.Options{TTL: longLease})
	t.release(c)
	if b.Owner() == "" || b.Owner() == mine || b.Owner() == c.Owner() {
		t.violated("without an owner in the context the holders were %q and %q", b.Owner(), c.Owner())
	}
}

func namesHolder(t *trial) {
	p, q := t.rivals()
	held := t.hold(p, lock.Options{TTL: longLease})
	_, err := t.take(t.ctx, q, lock.Options{TTL: longLease})
	taken, ok := errors.AsType[*lock.NotAcquiredError](err)
	if !ok {
		t.violated("a taken key gave %v", err)
	}
	if taken.Holder != held.Owner() || taken.Key != t.key {
		t.violated("%s holds %q; the error says %q holds %q", held.Owner(), t.key, taken.Holder, taken.Key)
	}
	if taken.TTL < 0 || taken.TTL > longLease && taken.TTL != lock.NoExpiry {
		t.violated("a lease of at most %v is said to run for another %v", longLease, taken.TTL)
	}
}

func reenters(t *trial) {
	p, q := t.process(), t.process()
	stranger := t.process()
	ctx := lock.WithOwner(t.ctx, lock.NewOwners().New())
	opts := lock.Options{TTL: longLease}

	one := t.holdAs(ctx, p, opts)
	two := t.holdAs(ctx, p, opts)
	three := t.holdAs(ctx, q, opts)
	t.mustBeTaken(stranger, "held three times")
	t.release(two)
	t.mustBeTaken(stranger, "held twice")
	t.release(one)
	t.mustBeTaken(stranger, "held once")
	t.release(three)
	t.mustBeFree(stranger, "after as many releases as acquisitions")
	if err := two.Release(t.ctx); !errors.Is(err, lock.ErrNotHeld) {
		t.violated("releasing the same hold twice gave %v", err)
	}
}

func reentryKeepsLease(t *trial) {
	p, q := t.rivals()
	const given = 5 * time.Second
	ctx := lock.WithOwner(t.ctx, lock.NewOwners().New())

	one := t.holdAs(ctx, p, lock.Options{TTL: given})
	two := t.holdAs(ctx, p, lock.Options{TTL: given})
	t.leaseIs(given, "after re-entry")
	t.release(two)
	t.leaseIs(given, "after a partial release")
	t.release(one)
	if t.Renewed == 0 {
		return
	}
	one = t.holdAs(ctx, p, lock.Options{})
	two = t.holdAs(ctx, p, lock.Options{})
	t.release(two)
	t.staysTaken(q, 2*t.Renewed, "after a partial release, for two leases")
	t.release(one)
}

// leaseIs compares the store's word with the lease that was given a moment ago.
func (t *trial) leaseIs(given time.Duration, when string) {
	const slack = 3 * time.Second // a machine may be that slow; a lock may not be that wrong
	if ttl := t.ttl(); ttl > given || ttl < given-slack {
		t.violated("the lease %s is %v, given were %v", when, ttl, given)
	}
}

// staysTaken lets a stranger wait in vain.
func (t *trial) staysTaken(p lock.Locker, d time.Duration, when string) {
	_, err := t.take(t.ctx, p, lock.Options{TTL: longLease, Wait: d})
	if err == nil {
		t.violated("somebody else got the lock %s", when)
	}
	if !errors.Is(err, lock.ErrNotAcquired) {
		t.violated("waiting %s gave %v", when, err)
	}
}

func tokensGrow(t *trial) {
	ps := []lock.Locker{t.process(), t.process()}
	var last uint64
	for i := range 6 {
		lease := t.hold(ps[i%len(ps)], lock.Options{TTL: longLease})
		token := lease.Token()
		if token <= last {
			t.violated("the token %d came after %d", token, last)
		}
		if last = token; i%3 == 2 && t.Store.Remove != nil {
			t.remove() // the counter must outlive the lock
			continue
		}
		t.release(lease)
	}
	p := ps[0]
	ctx := lock.WithOwner(t.ctx, lock.NewOwners().New())
	one := t.holdAs(ctx, p, lock.Options{TTL: longLease})
	if two, err := t.take(ctx, p, lock.Options{TTL: longLease}); err == nil {
		if two.Token() != one.Token() {
			t.violated("re-entry changed the token from %d to %d", one.Token(), two.Token())
		}
		t.release(two)
	}
	t.release(one)
}

// expectContextError takes the error of an acquisition whose context ended.
func (t *trial) expectContextError(err, want error) {
	if err == nil {
		t.violated("an acquisition succeeded under a context that had ended")
	}
	if !errors.Is(err, want) || errors.Is(err, lock.ErrNotAcquired) {
		t.violated("a context that ended with %q gave %v", want, err)
	}
}

// cancelled is a context that has ended.
func cancelled(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
