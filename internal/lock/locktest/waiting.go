package locktest

import (
	"context"
	"errors"
	"time"

	"seckill/internal/lock"
)

// promptly is within what time a waiter gets a lock whose lease has run out, without a message.
const promptly = 20 * time.Millisecond

// betweenPolls is a moment in virtual time at which no waiter polls: they do so every 10 ms.
const betweenPolls = 35 * time.Millisecond

func triesOnce(t *trial) {
	p := t.process()
	held := t.mustAcquire(p, lock.Options{TTL: t.long})
	began := time.Now()
	_, err := t.acquire(t.ctx, p, lock.Options{TTL: t.long})
	if took := time.Since(began); took > t.tolerance {
		t.violated("a single try took %v", took)
	}
	taken, ok := errors.AsType[*lock.NotAcquiredError](err)
	if !ok || taken.Key != t.key {
		t.violated("a taken key gave %v", err)
	}
	t.mustRelease(held)
}

// waitsAsLongAsAsked makes several attempts: on a busy machine one may be late, and a
// wait that ends too early need not do so every time.
func waitsAsLongAsAsked(t *trial) {
	const limit = 300 * time.Millisecond
	p := t.process()
	held := t.mustAcquire(p, lock.Options{TTL: t.long})
	best := time.Hour
	for range t.attempts {
		began := time.Now()
		_, err := t.acquire(t.ctx, p, lock.Options{TTL: t.long, Wait: limit})
		took := time.Since(began)
		if !errors.Is(err, lock.ErrNotAcquired) {
			t.violated("an unsuccessful wait gave %v", err)
		}
		if took < limit {
			t.violated("asked to wait %v, it waited %v", limit, took)
		}
		best = min(best, took)
	}
	if best > limit+t.tolerance {
		t.violated("asked to wait %v, it waited %v at best", limit, best)
	}
	t.mustRelease(held)
}

func releaseLetsWaiterIn(t *trial) {
	p, q := t.twoProcesses()
	held := t.mustAcquire(p, lock.Options{TTL: t.long})
	waiter := t.acquireAsync(t.ctx, q, lock.Options{TTL: t.long, Wait: t.limit})
	t.sleep(50 * time.Millisecond) // a lease that is counted from the request would be this much shorter
	t.mustRelease(held)
	got := <-waiter
	if got.err != nil {
		t.violated("the waiter did not get the lock: %v", got.err)
	}
	if left := got.lease.Remaining(); left != lock.NoExpiry && left < t.long-t.margin(t.long) {
		t.violated("of a lease of %v that was just granted %v are left", t.long, left)
	}
	t.mustRelease(got.lease)
}

func wakesByMessage(t *trial) {
	p, q := t.twoProcesses()
	var network *Network
	if t.Remote {
		q, network = t.processOnNetwork()
		network.Observe(nil)
	}
	held := t.mustAcquire(p, lock.Options{TTL: t.long})
	waiter := t.acquireAsync(t.ctx, q, lock.Options{TTL: t.long, Wait: t.limit})
	if network != nil {
		t.eventually("the waiter's first request", func() bool { return network.Received() > 0 })
		// It waits if it sends hardly anything in two spans in a row: one that polls every 120 ms sends two requests in
		// one span and three in the next. Before it waits, it sends requests whose answers may be late.
		const span, allowed = 300 * time.Millisecond, 2
		limit := time.Now().Add(t.prompt)
		for quiet := 0; quiet < 2; {
			before := network.Sent()
			t.sleep(span)
			asked := network.Sent() - before
			if quiet++; asked > allowed {
				quiet = 0
			}
			if quiet == 0 && time.Now().After(limit) {
				t.violated("after %v the waiter still sent %d requests in %v", t.prompt, asked, span)
			}
		}
	}
	released := time.Now()
	t.mustRelease(held)
	got := <-waiter
	if got.err != nil {
		t.violated("the waiter did not get the lock: %v", got.err)
	}
	if late := got.at.Sub(released); late > t.noticed() {
		t.violated("the waiter got the lock %v after the release", late)
	}
	t.mustRelease(got.lease)
}

// expiryLetsWaiterIn compares the waiter with a caller who comes for another key when the lease ends: a busy machine or
// server makes both of them late. Of several attempts the best counts: one late timer is the fault of the machine.
func expiryLetsWaiterIn(t *trial) {
	p, q := t.twoProcesses()
	best := time.Hour
	for range t.attempts {
		lock.Abandon(t.mustAcquire(p, lock.Options{TTL: t.short}))
		end := time.Now().Add(t.short)
		waiter := t.acquireAsync(t.ctx, q, lock.Options{TTL: t.long, Wait: t.short + promptly + t.tolerance})
		t.sleep(time.Until(end))
		other := t.mustAcquireKey(t.ctx, p, t.key+":other", lock.Options{TTL: t.long})
		fastest := time.Now()
		t.mustRelease(other)
		got := <-waiter
		if got.err != nil {
			t.violated("%v after a lease of %v had ended the waiter did not have the lock: %v", t.tolerance, t.short, got.err)
		}
		t.mustRelease(got.lease)
		if best = min(best, got.at.Sub(fastest)); best <= promptly {
			return
		}
	}
	t.violated("at best the waiter got the lock %v after a caller who came for another one when the lease ended", best)
}

// tellsCancelledFromTaken has waits end while no attempt is under way. What a server grants to an attempt that was is the
// subject of [cancelLeavesNothing].
func tellsCancelledFromTaken(t *trial) {
	p := t.process()
	_, err := t.acquire(cancelled(t.ctx), p, lock.Options{TTL: t.long})
	t.expectContextError(err, context.Canceled)
	t.mustBeFree(p, "after an acquisition with a context that had ended")

	held := t.mustAcquire(p, lock.Options{TTL: t.long})
	ctx, cancel := context.WithCancel(t.ctx)
	waiter := t.acquireAsync(ctx, p, lock.Options{TTL: t.long, Wait: t.limit})
	t.sleep(betweenPolls)
	cancel()
	began := time.Now()
	got := <-waiter
	t.expectContextError(got.err, context.Canceled)
	if late := got.at.Sub(began); late > t.tolerance {
		t.violated("a cancelled wait continued for %v", late)
	}

	ctx, cancel = context.WithTimeout(t.ctx, betweenPolls)
	defer cancel()
	_, err = t.acquire(ctx, p, lock.Options{TTL: t.long, Wait: t.limit})
	t.expectContextError(err, context.DeadlineExceeded)
	t.mustRelease(held)
	t.mustBecomeFree(p, "after two waits that were cancelled")
}

// cancelLeavesNothing ends the context when the server has granted the lock and the
// process does not know it yet. The first time the reply still arrives, the second time
// it does not.
func cancelLeavesNothing(t *trial) {
	p, network := t.processOnNetwork()
	other := t.process()
	opts := lock.Options{TTL: t.long}

	ctx, cancel := context.WithCancel(t.ctx)
	network.LoseReply(1, Deliver, cancel)
	lease, err := t.acquire(ctx, p, opts)
	if err == nil && t.SplitVote { // the other nodes were enough, and had answered before
		t.mustRelease(lease)
	} else {
		t.expectContextError(err, context.Canceled)
	}
	t.mustBeFree(other, "after an acquisition that was cancelled as the reply arrived")

	ctx, cancel = context.WithTimeout(t.ctx, 30*time.Millisecond)
	defer cancel()
	network.LoseReply(1, Silence, nil)
	_, err = t.acquire(ctx, p, opts)
	t.expectContextError(err, context.DeadlineExceeded)
	t.mustBeFree(other, "after an acquisition that gave up on a lost reply")
	t.mustBeEmpty("after two cancelled acquisitions")
}

func cancelledWaitersAreGone(t *trial) {
	p, q := t.twoProcesses()
	const waiters = 100
	held := t.mustAcquire(p, lock.Options{TTL: t.long})
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	patient := t.acquireAsync(t.ctx, q, lock.Options{TTL: t.long, Wait: t.limit})
	var waits [waiters]<-chan outcome
	for i := range waits {
		waits[i] = t.acquireAsync(ctx, q, lock.Options{TTL: t.long, Wait: t.limit})
	}
	t.sleep(30 * time.Millisecond) // some wait by now, some have not sent their request yet
	cancel()
	for _, w := range waits {
		t.expectContextError((<-w).err, context.Canceled)
	}
	t.mustRelease(held)
	got := <-patient
	if got.err != nil {
		t.violated("the waiter that was not cancelled did not get the lock: %v", got.err)
	}
	t.mustRelease(got.lease)
	t.mustBecomeFree(p, "after a hundred cancelled waits")
	t.mustBeEmpty("after a hundred cancelled waits")
}

func survivesLostGrantReply(t *trial) {
	p, network := t.processOnNetwork()
	other := t.process()
	network.LoseReply(1, Reset, nil)
	lease, err := t.acquire(t.ctx, p, lock.Options{TTL: t.long})
	switch {
	case errors.Is(err, lock.ErrUnavailable):
		t.mustBeFree(other, "after an acquisition of unknown outcome")
	case err != nil:
		t.violated("the process whose lock was granted got the error %v", err)
	default:
		t.mustBeTaken(other, "after the reply was lost once")
		t.mustRelease(lease)
		t.mustBeFree(other, "after the release")
	}
}
