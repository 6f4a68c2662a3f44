package locktest

import (
	"context"
	"errors"
	"time"

	"seckill/internal/lock"
)

// anyWait is a limit that no check means to reach.
const anyWait = 4 * time.Second

// promptWait is a limit for who is let in within a second or not at all.
const promptWait = 2 * time.Second

func triesOnce(t *trial) {
	p := t.process()
	held := t.hold(p, lock.Options{TTL: longLease})
	began := time.Now()
	_, err := t.take(t.ctx, p, lock.Options{TTL: longLease})
	if took := time.Since(began); took > tolerance {
		t.violated("a single try took %v", took)
	}
	taken, ok := errors.AsType[*lock.NotAcquiredError](err)
	if !ok || taken.Key != t.key {
		t.violated("a taken key gave %v", err)
	}
	t.release(held)
}

// waitsAsLongAsAsked makes some attempts. On a busy machine the best of them may be late,
// and one that ended early need not look so each time.
func waitsAsLongAsAsked(t *trial) {
	const limit, attempts = 300 * time.Millisecond, 3
	p := t.process()
	held := t.hold(p, lock.Options{TTL: longLease})
	best := time.Hour
	for range attempts {
		began := time.Now()
		_, err := t.take(t.ctx, p, lock.Options{TTL: longLease, Wait: limit})
		took := time.Since(began)
		if !errors.Is(err, lock.ErrNotAcquired) {
			t.violated("waiting in vain gave %v", err)
		}
		if took < limit {
			t.violated("asked to wait %v, it waited %v", limit, took)
		}
		best = min(best, took)
	}
	if best > limit+tolerance {
		t.violated("asked to wait %v, it waited %v at best", limit, best)
	}
	t.release(held)
}

func releaseLetsWaiterIn(t *trial) {
	p, q := t.rivals()
	held := t.hold(p, lock.Options{TTL: longLease})
	waiter := t.start(t.ctx, q, lock.Options{TTL: longLease, Wait: anyWait})
	t.pass(50 * time.Millisecond) // a lease counted from here on would show
	t.release(held)
	got := <-waiter
	if got.err != nil {
		t.violated("the waiter did not get in: %v", got.err)
	}
	if left := got.lease.Remaining(); left != lock.NoExpiry && left < longLease-time.Second {
		t.violated("of a lease of %v that was just won %v are left", longLease, left)
	}
	t.release(got.lease)
}

func wakesByMessage(t *trial) {
	p, q := t.rivals()
	var line *Line
	if t.Remote {
		q, line = t.wired()
		line.Watch(nil)
	}
	held := t.hold(p, lock.Options{TTL: longLease})
	waiter := t.start(t.ctx, q, lock.Options{TTL: longLease, Wait: anyWait})
	if line != nil {
		t.until("the waiter's first word", func() bool { return line.Received() > 0 })
		t.pass(100 * time.Millisecond) // to settle down
		before := line.Sent()
		t.pass(200 * time.Millisecond)
		if asked := line.Sent() - before; asked > 2 {
			t.violated("in 200 ms the waiter asked %d times", asked)
		}
	}
	released := time.Now()
	t.release(held)
	got := <-waiter
	if got.err != nil {
		t.violated("the waiter did not get in: %v", got.err)
	}
	if late := got.at.Sub(released); late > time.Second {
		t.violated("the waiter woke %v after the release", late)
	}
	t.release(got.lease)
}

// expiryLetsWaiterIn takes the best of some attempts: a late timer on a busy
// machine is not the lock's doing, five in a row are.
func expiryLetsWaiterIn(t *trial) {
	const limit, attempts = 20 * time.Millisecond, 5
	p, q := t.rivals()
	best := time.Hour
	for range attempts {
		t.hold(p, lock.Options{TTL: shortLease}).Abandon()
		end := time.Now().Add(shortLease)
		got := <-t.start(t.ctx, q, lock.Options{TTL: longLease, Wait: shortLease + tolerance})
		if got.err != nil {
			t.violated("%v after a lease of %v had ended the waiter was still out: %v", tolerance, shortLease, got.err)
		}
		t.release(got.lease)
		if best = min(best, got.at.Sub(end)); best <= limit {
			return
		}
	}
	t.violated("at best the waiter got in %v after the end of the lease", best)
}

func tellsCancelledFromTaken(t *trial) {
	p := t.process()
	_, err := t.take(cancelled(t.ctx), p, lock.Options{TTL: longLease})
	t.expectContextError(err, context.Canceled)
	t.mustBeFree(p, "after an acquisition that began cancelled")

	held := t.hold(p, lock.Options{TTL: longLease})
	ctx, cancel := context.WithCancel(t.ctx)
	waiter := t.start(ctx, p, lock.Options{TTL: longLease, Wait: anyWait})
	t.pass(30 * time.Millisecond)
	cancel()
	began := time.Now()
	got := <-waiter
	t.expectContextError(got.err, context.Canceled)
	if late := got.at.Sub(began); late > tolerance {
		t.violated("a cancelled wait went on for %v", late)
	}

	ctx, cancel = context.WithTimeout(t.ctx, 50*time.Millisecond)
	defer cancel()
	_, err = t.take(ctx, p, lock.Options{TTL: longLease, Wait: anyWait})
	t.expectContextError(err, context.DeadlineExceeded)
	t.release(held)
	t.mustBeFree(p, "after two waits that were cancelled")
}

// cancelLeavesNothing ends the context when the server has granted and the
// process does not know yet: once with the reply to come, once without.
func cancelLeavesNothing(t *trial) {
	p, line := t.wired()
	other := t.process()
	opts := lock.Options{TTL: longLease}

	ctx, cancel := context.WithCancel(t.ctx)
	line.LoseReply(1, Notice, cancel)
	_, err := t.take(ctx, p, opts)
	t.expectContextError(err, context.Canceled)
	t.mustBeFree(other, "after its taker was cancelled as the reply came")

	ctx, cancel = context.WithTimeout(t.ctx, 100*time.Millisecond)
	defer cancel()
	line.LoseReply(1, Silence, nil)
	_, err = t.take(ctx, p, opts)
	t.expectContextError(err, context.DeadlineExceeded)
	t.mustBeFree(other, "after its taker gave up on a reply that never came")
	t.mustBeEmpty("after two acquisitions that were cancelled")
}

func cancelledWaitersAreGone(t *trial) {
	p, q := t.rivals()
	const waiters = 100
	held := t.hold(p, lock.Options{TTL: longLease})
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	patient := t.start(t.ctx, q, lock.Options{TTL: longLease, Wait: anyWait})
	var waits [waiters]<-chan outcome
	for i := range waits {
		waits[i] = t.start(ctx, q, lock.Options{TTL: longLease, Wait: anyWait})
	}
	t.pass(30 * time.Millisecond) // some wait by now, some are still on their way
	cancel()
	for _, w := range waits {
		t.expectContextError((<-w).err, context.Canceled)
	}
	t.release(held)
	got := <-patient
	if got.err != nil {
		t.violated("who was not cancelled did not get in: %v", got.err)
	}
	t.release(got.lease)
	t.mustBeFree(p, "after a hundred cancelled waits")
	t.mustBeEmpty("after a hundred cancelled waits")
}

func survivesLostGrantReply(t *trial) {
	p, line := t.wired()
	other := t.process()
	line.LoseReply(1, Reset, nil)
	lease, err := t.take(t.ctx, p, lock.Options{TTL: longLease})
	switch {
	case errors.Is(err, lock.ErrUnavailable):
		t.mustBeFree(other, "after an acquisition of unknown outcome")
	case err != nil:
		t.violated("the process that was granted the lock was told %v", err)
	default:
		t.mustBeTaken(other, "after the reply was lost once")
		t.release(lease)
		t.mustBeFree(other, "after the release")
	}
}
