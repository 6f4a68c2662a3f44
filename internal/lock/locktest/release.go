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
	first := t.mustAcquire(p, lock.Options{TTL: t.long})
	t.mustRelease(first)
	next := t.mustAcquire(p, lock.Options{TTL: t.long})
	if err := first.Release(t.ctx); !errors.Is(err, lock.ErrNotHeld) {
		t.violated("a second release gave %v", err)
	}
	t.mustRelease(next)
	t.mustBeFree(p, "after both were released")
}

func releasesOnlyOwn(t *trial) {
	p, q := t.twoProcesses()
	late := t.mustAcquire(p, lock.Options{TTL: t.long})
	t.removeKey()
	next := t.mustAcquire(q, lock.Options{TTL: t.long})
	_ = late.Release(t.ctx)
	t.mustBeTaken(p, "while its holder had it, after a late release by the previous holder")
	t.mustRelease(next)
}

// releasesAtomically ends the lease and gives the lock to another owner ahead of each command of a release except the
// first.
func releasesAtomically(t *trial) {
	t.require(t.Store.Remove != nil, "way to remove a lock")
	p, network := t.processOnNetwork()
	q, stranger := t.process(), t.process()
	for gap := 2; ; gap++ {
		lease := t.mustAcquire(p, lock.Options{TTL: t.long})
		var next atomic.Pointer[outcome]
		network.Observe(func(n int) {
			if n == gap {
				next.Store(t.steal(q))
			}
		})
		_ = lease.Release(t.ctx)
		network.Observe(nil)
		stolen := next.Load()
		if stolen == nil {
			return // the release has fewer commands than gap
		}
		t.checkErr(stolen.err)
		t.mustBeTaken(stranger, "while its holder had it, which got it in the middle of a release")
		t.mustRelease(stolen.lease)
	}
}

// steal ends the lease and gives the lock to q. Any goroutine may call it.
func (t *trial) steal(q lock.Locker) *outcome {
	if err := t.Store.Remove(t.ctx, t.key); err != nil {
		return &outcome{err: err}
	}
	lease, err := t.acquire(t.ctx, q, lock.Options{TTL: t.long})
	return &outcome{lease: lease, err: err}
}

func tellsExpiredFromLost(t *trial) {
	p, q := t.twoProcesses()
	opts := lock.Options{TTL: t.long}

	lease := t.mustAcquire(p, opts)
	t.removeKey()
	t.releaseGives(lease, lock.ErrExpired, "of a lock that nobody holds")

	lease = t.mustAcquire(p, opts)
	t.removeKey()
	next := t.mustAcquire(q, opts)
	t.releaseGives(lease, lock.ErrLost, "of a lock that another owner holds")
	t.mustRelease(next)

	lease = t.mustAcquire(p, opts)
	t.removeKey()
	t.mustRelease(t.mustAcquire(q, opts))
	t.releaseGives(lease, lock.ErrExpired, "of a lock that another owner had meanwhile")

	if !t.timed {
		return
	}
	cutOff, network := t.processOnNetwork()
	lease = t.mustAcquire(cutOff, lock.Options{TTL: t.short})
	network.Cut()
	t.releaseGives(lease, lock.ErrUnavailable, "without a server")
	network.Restore()
	t.sleep(t.short + lastMoment)
	t.releaseGives(lease, lock.ErrExpired, "repeated after the lease ran out")
}

func (t *trial) releaseGives(l lock.Lease, want error, which string) {
	if err := l.Release(t.ctx); !errors.Is(err, want) {
		t.violated("the release %s gave %v, not %v", which, err, want)
	}
}

func leavesNothing(t *trial) {
	t.require(t.Store.Leftovers != nil, "way to list what is left")
	p, q := t.twoProcesses()
	held := t.mustAcquire(p, lock.Options{})
	_, _ = t.acquire(t.ctx, q, lock.Options{})
	waiter := t.acquireAsync(t.ctx, p, lock.Options{TTL: t.long, Wait: t.limit})
	t.sleep(20 * time.Millisecond)
	t.mustRelease(held)
	got := <-waiter
	if got.err != nil {
		t.violated("a waiter did not get the lock: %v", got.err)
	}
	t.mustRelease(got.lease)
	t.mustBeEmpty("after the last release")
}

func endsContextOnRelease(t *trial) {
	type tag struct{}
	p := t.process()
	parent, cancel := context.WithCancel(context.WithValue(t.ctx, tag{}, "kept"))
	defer cancel()
	lease := t.mustAcquireAs(parent, p, lock.Options{TTL: t.long})
	if lease.Context().Value(tag{}) != "kept" {
		t.violated("the lease's context does not derive from the acquisition's")
	}
	if err := lease.Context().Err(); err != nil || closed(lease.Lost()) {
		t.violated("the context of a held lease has ended: %v", err)
	}
	t.mustRelease(lease)
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrReleased) {
		t.violated("after the release the cause of the context is %v", cause)
	}
	if closed(lease.Lost()) {
		t.violated("Lost was closed by a release")
	}

	lease = t.mustAcquireAs(parent, p, lock.Options{TTL: t.long})
	cancel()
	if cause := context.Cause(lease.Context()); !errors.Is(cause, context.Canceled) {
		t.violated("after the parent ended the cause of the context is %v", cause)
	}
	t.mustRelease(lease)
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
	p, network := t.processOnNetwork()
	other := t.process()
	for n, commands := 1, 1; n <= commands; n++ {
		lease := t.mustAcquire(p, lock.Options{TTL: t.long})
		network.Observe(nil)
		network.LoseReply(n, Reset, nil)
		err := lease.Release(t.ctx)
		if errors.Is(err, lock.ErrUnavailable) {
			err = lease.Release(t.ctx)
		}
		if err != nil {
			t.violated("a release whose reply %d was lost gave %v", n, err)
		}
		t.mustBeFree(other, "after a release whose reply was lost")
		if n == 1 {
			commands = t.commandsOfRelease(p, network)
		}
	}
}

func (t *trial) commandsOfRelease(p lock.Locker, network *Network) int {
	lease := t.mustAcquire(p, lock.Options{TTL: t.long})
	network.Observe(nil)
	t.mustRelease(lease)
	return network.Sent()
}

func releasesAgainAfterOutage(t *trial) {
	p, network := t.processOnNetwork()
	lease := t.mustAcquire(p, lock.Options{TTL: t.long})
	network.Cut()
	if err := lease.Release(t.ctx); !errors.Is(err, lock.ErrUnavailable) {
		t.violated("a release without a server gave %v", err)
	}
	network.Restore()
	t.mustRelease(lease)
	t.mustBeFree(t.process(), "after the release was repeated")
	if err := lease.Release(t.ctx); !errors.Is(err, lock.ErrNotHeld) {
		t.violated("a third release gave %v", err)
	}
}
