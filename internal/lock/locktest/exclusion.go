package locktest

import (
	"context"
	"errors"
	"fmt"
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

// exclude starts sixteen contenders at once: first they try, then they wait.
func (t *trial) exclude(process func(i int) lock.Locker) {
	const contenders = 16
	var winners, others atomic.Int32
	var winner atomic.Pointer[lock.Lease]
	startTogether(contenders, func(i int) {
		lease, err := t.acquire(t.ctx, process(i), lock.Options{TTL: t.long})
		switch {
		case err == nil:
			winners.Add(1)
			winner.Store(&lease)
		case !errors.Is(err, lock.ErrNotAcquired):
			others.Add(1)
		}
	})
	if winners.Load() != 1 || others.Load() != 0 {
		t.violated("of %d callers that tried at once %d got the lock and %d failed with another error", contenders,
			winners.Load(), others.Load())
	}
	t.mustRelease(*winner.Load())

	var inside, together, failed atomic.Int32
	startTogether(contenders, func(i int) {
		lease, err := t.acquire(t.ctx, process(i), lock.Options{TTL: t.long, Wait: t.limit})
		if err != nil {
			failed.Add(1)
			return
		}
		if inside.Add(1) > 1 {
			together.Add(1)
		}
		time.Sleep(time.Millisecond) // the work: long enough for another caller to enter
		inside.Add(-1)
		if lease.Release(t.ctx) != nil {
			failed.Add(1)
		}
	})
	if together.Load() != 0 || failed.Load() != 0 {
		t.violated("of %d callers that waited %d met another one inside and %d failed to acquire or release", contenders,
			together.Load(), failed.Load())
	}
}

func keepsKeysApart(t *trial) {
	p, q := t.twoProcesses()
	one := t.mustAcquireKey(t.ctx, p, "seat:1", lock.Options{TTL: t.long})
	for _, key := range []string{"seat", "seat:2", "seat:1:count", "seat:11", "Seat:1", "座位:1"} {
		t.mustRelease(t.mustAcquireKey(t.ctx, q, key, lock.Options{TTL: t.long}))
	}
	t.mustRelease(one)
}

// servesInOrder has a late caller try just when the lock is released to a waiter that cannot act for the moment.
func servesInOrder(t *trial) {
	holder, late := t.process(), t.process()
	if !t.Remote {
		t.require(t.Store.Waiting != nil, "way to count waiters")
		late = holder // processes that share no server share no queue
	}
	held := t.mustAcquire(holder, lock.Options{TTL: t.long})
	var first queuedWaiter
	if t.Remote {
		first = t.enqueue(1, nil)[0]
	} else {
		first.got = t.acquireAsync(t.ctx, holder, lock.Options{TTL: t.long, Wait: t.limit})
		t.awaitQueued(holder, first, 1)
	}
	first.freeze()
	defer first.unfreeze()
	err := held.Release(t.ctx)
	overtook, tried := t.acquire(t.ctx, late, lock.Options{TTL: t.long})
	first.unfreeze()
	if err != nil {
		t.violated("the release failed: %v", err)
	}
	if tried == nil {
		_ = overtook.Release(t.ctx)
		<-first.got
		t.violated("the last to come was served first")
	}
	got := <-first.got
	if got.err != nil {
		t.violated("the first in the queue did not get the lock: %v", got.err)
	}
	t.mustRelease(got.lease)
}

func ownerFromContext(t *trial) {
	p := t.process()
	owners := lock.NewOwners()
	mine := owners.New()
	a := t.mustAcquireAs(lock.WithOwner(t.ctx, mine), p, lock.Options{TTL: t.long})
	if a.Owner() != mine || a.Key() != t.key {
		t.violated("the lease is for owner %s on %q, want owner %s on %q", a.Owner(), a.Key(), mine, t.key)
	}
	t.mustRelease(a)
	b := t.mustAcquire(p, lock.Options{TTL: t.long})
	t.mustRelease(b)
	c := t.mustAcquire(t.process(), lock.Options{TTL: t.long})
	t.mustRelease(c)
	if b.Owner() == "" || b.Owner() == mine || b.Owner() == c.Owner() {
		t.violated("without an owner in the context the holders were %q and %q", b.Owner(), c.Owner())
	}
}

func namesHolder(t *trial) {
	p, q := t.twoProcesses()
	held := t.mustAcquire(p, lock.Options{TTL: t.long})
	_, err := t.acquire(t.ctx, q, lock.Options{TTL: t.long})
	taken, ok := errors.AsType[*lock.NotAcquiredError](err)
	if !ok {
		t.violated("a taken key gave %v", err)
	}
	if taken.Holder != held.Owner() || taken.Key != t.key {
		t.violated("%s holds %q, but according to the error %q holds %q", held.Owner(), t.key, taken.Holder, taken.Key)
	}
	if taken.TTL < 0 || taken.TTL > t.long && taken.TTL != lock.NoExpiry {
		t.violated("according to the error a lease of at most %v runs for another %v", t.long, taken.TTL)
	}
}

func reenters(t *trial) {
	p, q := t.process(), t.process()
	stranger := t.process()
	ctx := lock.WithOwner(t.ctx, lock.NewOwners().New())
	opts := lock.Options{TTL: t.long}

	one := t.mustAcquireAs(ctx, p, opts)
	two := t.mustAcquireAs(ctx, p, opts)
	three := t.mustAcquireAs(ctx, q, opts)
	t.mustBeTaken(stranger, "held three times")
	t.mustRelease(two)
	t.mustBeTaken(stranger, "held twice")
	t.mustRelease(one)
	t.mustBeTaken(stranger, "held once")
	t.mustRelease(three)
	t.mustBeFree(stranger, "after as many releases as acquisitions")
	if err := two.Release(t.ctx); !errors.Is(err, lock.ErrNotHeld) {
		t.violated("releasing the same hold twice gave %v", err)
	}
}

func reentryKeepsLease(t *trial) {
	p, q := t.twoProcesses()
	given := t.given
	ctx := lock.WithOwner(t.ctx, lock.NewOwners().New())

	one := t.mustAcquireAs(ctx, p, lock.Options{TTL: given})
	two := t.mustAcquireAs(ctx, p, lock.Options{TTL: given})
	t.mustStoreLease(given, "after re-entry")
	t.mustRelease(two)
	t.mustStoreLease(given, "after a partial release")
	t.mustRelease(one)
	if t.Renewed == 0 {
		return
	}
	one = t.mustAcquireAs(ctx, p, lock.Options{})
	two = t.mustAcquireAs(ctx, p, lock.Options{})
	t.mustRelease(two)
	t.mustStayTaken(q, 2*t.Renewed, "after a partial release, for two leases")
	t.mustRelease(one)
}

// innerLeaseDoesNotShorten re-enters with a lease that ends long before the first one.
func innerLeaseDoesNotShorten(t *trial) {
	p, q := t.twoProcesses()
	ctx := lock.WithOwner(t.ctx, lock.NewOwners().New())
	outer := t.mustAcquireAs(ctx, p, lock.Options{TTL: t.given})
	inner, err := t.acquire(ctx, p, lock.Options{TTL: t.short})
	if err != nil {
		t.checkErr(fmt.Errorf("the lock has no re-entry: %w", err))
	}
	t.mustStayTaken(q, 2*t.short, fmt.Sprintf("at the end of the inner lease of %v; the outer one is %v long", t.short, t.given))
	_ = inner.Release(t.ctx) // a lock that counts its leases apart says that this one is over
	t.mustBeTaken(q, "after the release of the inner one")
	t.mustRelease(outer)
}

// mustStoreLease compares the lease in the store with the one given a moment ago.
func (t *trial) mustStoreLease(given time.Duration, when string) {
	if ttl := t.storedTTL(); ttl > given || ttl < given-t.slack {
		t.violated("the lease %s is %v, want %v", when, ttl, given)
	}
}

// mustStayTaken fails the behaviour if another owner gets the lock within d.
func (t *trial) mustStayTaken(p lock.Locker, d time.Duration, when string) {
	_, err := t.acquire(t.ctx, p, lock.Options{TTL: t.long, Wait: d})
	if err == nil {
		t.violated("another owner got the lock %s", when)
	}
	if !errors.Is(err, lock.ErrNotAcquired) {
		t.violated("waiting %s gave %v", when, err)
	}
}

func tokensGrow(t *trial) {
	ps := []lock.Locker{t.process(), t.process()}
	var last uint64
	for i := range 6 {
		lease := t.mustAcquire(ps[i%len(ps)], lock.Options{TTL: t.long})
		token := lease.Token()
		if token <= last {
			t.violated("the token %d came after %d", token, last)
		}
		if last = token; i%3 == 2 && t.Store.Remove != nil {
			t.removeKey() // the token counter must outlive the lock
			continue
		}
		t.mustRelease(lease)
	}
	p := ps[0]
	ctx := lock.WithOwner(t.ctx, lock.NewOwners().New())
	one := t.mustAcquireAs(ctx, p, lock.Options{TTL: t.long})
	if two, err := t.acquire(ctx, p, lock.Options{TTL: t.long}); err == nil {
		if two.Token() != one.Token() {
			t.violated("re-entry changed the token from %d to %d", one.Token(), two.Token())
		}
		t.mustRelease(two)
	}
	t.mustRelease(one)
}

// expectContextError checks the error of an acquisition whose context ended.
func (t *trial) expectContextError(err, want error) {
	if err == nil {
		t.violated("an acquisition succeeded under a context that had ended")
	}
	if !errors.Is(err, want) || errors.Is(err, lock.ErrNotAcquired) {
		t.violated("a context that ended with %q gave %v", want, err)
	}
}

// cancelled returns a context that has ended.
func cancelled(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
