package locktest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"seckill/internal/lock"
)

func releasesOnce(t *trial) {
	p := t.process()
	first := t.hold(p, lock.Options{TTL: longLease})
	t.release(first)
	next := t.hold(p, lock.Options{TTL: longLease})
	if err := first.Release(t.ctx); !errors.Is(err, lock.ErrNotHeld) {
		t.violated("a second release gave %v", err)
	}
	t.release(next)
	t.mustBeFree(p, "after both were released")
}

func releasesOnlyOwn(t *trial) {
	p, q := t.rivals()
	late := t.hold(p, lock.Options{TTL: longLease})
	t.remove()
	next := t.hold(q, lock.Options{TTL: longLease})
	_ = late.Release(t.ctx)
	t.mustBeTaken(p, "while its holder had it, after a release that came too late")
	t.release(next)
}

// releasesAtomically lets the lease run out, and somebody else get the lock,
// ahead of each command of a release but the first.
func releasesAtomically(t *trial) {
	t.need(t.Store.Remove != nil, "way to remove a lock")
	p, line := t.wired()
	q, stranger := t.process(), t.process()
	for gap := 2; ; gap++ {
		lease := t.hold(p, lock.Options{TTL: longLease})
		var next atomic.Pointer[outcome]
		line.Watch(func(n int) {
			if n == gap {
				next.Store(t.steal(q))
			}
		})
		_ = lease.Release(t.ctx)
		line.Watch(nil)
		stolen := next.Load()
		if stolen == nil {
			return // the release has fewer commands than that
		}
		t.check(stolen.err)
		t.mustBeTaken(stranger, "while its holder had it, since it got it in the middle of a release")
		t.release(stolen.lease)
	}
}

// steal lets the lease run out and q have the lock. It may be called from any
// goroutine.
func (t *trial) steal(q lock.Locker) *outcome {
	if err := t.Store.Remove(t.ctx, t.key); err != nil {
		return &outcome{err: err}
	}
	lease, err := t.take(t.ctx, q, lock.Options{TTL: longLease})
	return &outcome{lease: lease, err: err}
}

func tellsExpiredFromLost(t *trial) {
	p, q := t.rivals()
	opts := lock.Options{TTL: longLease}

	lease := t.hold(p, opts)
	t.remove()
	t.releaseGives(lease, lock.ErrExpired, "of a lock that nobody holds")

	lease = t.hold(p, opts)
	t.remove()
	next := t.hold(q, opts)
	t.releaseGives(lease, lock.ErrLost, "of a lock that somebody else holds")
	t.release(next)

	lease = t.hold(p, opts)
	t.remove()
	t.release(t.hold(q, opts))
	t.releaseGives(lease, lock.ErrExpired, "of a lock that others had in between")

	cutOff, line := t.wired()
	lease = t.hold(cutOff, lock.Options{TTL: shortLease})
	line.Cut()
	t.releaseGives(lease, lock.ErrUnavailable, "without a server")
	line.Mend()
	t.pass(shortLease)
	t.releaseGives(lease, lock.ErrExpired, "made again after the lease ran out")
}

func (t *trial) releaseGives(l lock.Lease, want error, which string) {
	if err := l.Release(t.ctx); !errors.Is(err, want) {
		t.violated("the release %s gave %v, not %v", which, err, want)
	}
}

func leavesNothing(t *trial) {
	t.need(t.Store.Left != nil, "way to look for what is left")
	p, q := t.rivals()
	held := t.hold(p, lock.Options{})
	_, _ = t.take(t.ctx, q, lock.Options{})
	waiter := t.start(t.ctx, p, lock.Options{TTL: longLease, Wait: anyWait})
	t.pass(20 * time.Millisecond)
	t.release(held)
	got := <-waiter
	if got.err != nil {
		t.violated("a waiter did not get in: %v", got.err)
	}
	t.release(got.lease)
	t.mustBeEmpty("after the last release")
}

func endsContextOnRelease(t *trial) {
	type tag struct{}
	p := t.process()
	parent, cancel := context.WithCancel(context.WithValue(t.ctx, tag{}, "kept"))
	defer cancel()
	lease := t.holdAs(parent, p, lock.Options{TTL: longLease})
	if lease.Context().Value(tag{}) != "kept" {
		t.violated("the lease's context does not derive from the acquisition's")
	}
	if err := lease.Context().Err(); err != nil || closed(lease.Lost()) {
		t.violated("a lease that is held has ended: %v", err)
	}
	t.release(lease)
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrReleased) {
		t.violated("after the release the context's cause is %v", cause)
	}
	if closed(lease.Lost()) {
		t.violated("a release was told as a loss")
	}

	lease = t.holdAs(parent, p, lock.Options{TTL: longLease})
	cancel()
	if cause := context.Cause(lease.Context()); !errors.Is(cause, context.Canceled) {
		t.violated("after the parent ended the context's cause is %v", cause)
	}
	t.release(lease)
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// survivesLostReleaseReply loses the reply to each command of a release in turn.
func survivesLostReleaseReply(t *trial) {
	p, line := t.wired()
	other := t.process()
	for n, commands := 1, 1; n <= commands; n++ {
		lease := t.hold(p, lock.Options{TTL: longLease})
		line.Watch(nil)
		line.LoseReply(n, Reset, nil)
		err := lease.Release(t.ctx)
		if errors.Is(err, lock.ErrUnavailable) {
			err = lease.Release(t.ctx)
		}
		if err != nil {
			t.violated("a release whose reply %d was lost gave %v", n, err)
		}
		t.mustBeFree(other, "after a release whose reply was lost")
		if n == 1 {
			commands = t.commandsOfRelease(p, line)
		}
	}
}

func (t *trial) commandsOfRelease(p lock.Locker, line *Line) int {
	lease := t.hold(p, lock.Options{TTL: longLease})
	line.Watch(nil)
	t.release(lease)
	return line.Sent()
}

func releasesAgainAfterOutage(t *trial) {
	p, line := t.wired()
	lease := t.hold(p, lock.Options{TTL: longLease})
	line.Cut()
	if err := lease.Release(t.ctx); !errors.Is(err, lock.ErrUnavailable) {
		t.violated("a release without a server gave %v", err)
	}
	line.Mend()
	t.release(lease)
	t.mustBeFree(t.process(), "after the release was made again")
	if err := lease.Release(t.ctx); !errors.Is(err, lock.ErrNotHeld) {
		t.violated("a third release gave %v", err)
	}
}
