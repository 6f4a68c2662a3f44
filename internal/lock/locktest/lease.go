package locktest

import (
	"context"
	"errors"
	"time"

	"seckill/internal/lock"
)

// toldWithin is how long a mechanism without a watchdog has to tell a holder that it lost its lock.
const toldWithin = 200 * time.Millisecond

func keepsGivenLease(t *trial) {
	lease := t.mustAcquire(t.process(), lock.Options{TTL: t.given})
	if left := lease.Remaining(); left > t.given || left < t.given-t.margin(t.given) {
		t.violated("of a lease of %v just granted %v remain", t.given, left)
	}
	t.mustStoreLease(t.given, "in the store")
	t.mustRelease(lease)
	if ttl := t.storedTTL(); ttl != 0 {
		t.violated("after the release the store still has a lease of %v", ttl)
	}
}

func leaseRunsOut(t *trial) {
	p, q := t.twoProcesses()
	t.mustAcquire(p, lock.Options{TTL: t.short})
	t.mustAcquireAfterLease(q, t.short, "of a live holder")
}

// mustAcquireAfterLease fails the behaviour if another owner does not get the lock at
// the end of a lease.
func (t *trial) mustAcquireAfterLease(p lock.Locker, lease time.Duration, which string) {
	late := promptly + t.tolerance
	got := <-t.acquireAsync(t.ctx, p, lock.Options{TTL: t.long, Wait: lease + late})
	if got.err != nil {
		t.violated("%v after the end of the lease of %v %s the lock was not free: %v", late, lease, which, got.err)
	}
	t.mustRelease(got.lease)
}

func freedAfterDeath(t *trial) {
	p, q := t.twoProcesses()
	lock.Abandon(t.mustAcquire(p, lock.Options{TTL: t.short}))
	t.mustAcquireAfterLease(q, t.short, "of a dead holder")
	if t.Renewed > 0 {
		lock.Abandon(t.mustAcquire(p, lock.Options{}))
		t.mustAcquireAfterLease(q, t.Renewed, "that a dead holder had renewed")
	}
}

// survivesLongHold holds a lock without a given lease for longer than the mechanism's
// own lease. A mechanism that renews must do so in time. If it does not renew, the trial
// shortens the lease as if most of it had passed.
func survivesLongHold(t *trial) {
	p, q := t.twoProcesses()
	lease := t.mustAcquire(p, lock.Options{})
	watch := 2 * t.Renewed
	if t.Renewed == 0 {
		watch = 2 * t.short
		if t.Store.Shorten != nil {
			t.checkErr(t.Store.Shorten(t.ctx, t.key, t.short))
		}
	}
	t.mustStayTaken(q, watch, "while its holder was still working")
	if closed(lease.Lost()) {
		t.violated("the holder was told during its work that it lost the lock: %v", context.Cause(lease.Context()))
	}
	if left := lease.Remaining(); left <= 0 {
		t.violated("the holder has %v left during its work", left)
	}
	t.mustRelease(lease)
}

func renewalIsRetried(t *trial) {
	t.require(t.Renewed > 0, "watchdog")
	p, network := t.processOnNetwork()
	lease := t.mustAcquire(p, lock.Options{})
	network.Cut() // long enough for one renewal, due after a third of the lease, to fail
	t.sleep(t.Renewed / 2)
	network.Restore()
	t.mustStayTaken(t.process(), 2*t.Renewed, "after a short outage")
	if closed(lease.Lost()) {
		t.violated("after a short outage the holder was told: %v", context.Cause(lease.Context()))
	}
	t.mustRelease(lease)
}

func renewalEndsWithRelease(t *trial) {
	t.require(t.Renewed > 0, "watchdog")
	p, q := t.twoProcesses()
	t.mustRelease(t.mustAcquire(p, lock.Options{}))
	fixed := t.mustAcquire(p, lock.Options{TTL: t.long})
	before := t.storedTTL()
	t.sleep(t.Renewed)
	if after := t.storedTTL(); after > before-t.Renewed/2 || after < before-t.Renewed-t.slack {
		t.violated("a renewal that should have ended changed %v into %v within %v", before, after, t.Renewed)
	}
	t.mustRelease(fixed)
	renewed := t.mustAcquire(p, lock.Options{})
	t.mustStayTaken(q, 2*t.Renewed, "although its new holder renews it")
	t.mustRelease(renewed)
}

// renewsOnlyOwn takes the lock from a holder, as the end of its lease does while its process is paused. The holder goes on
// renewing; the next one dies.
func renewsOnlyOwn(t *trial) {
	t.require(t.Renewed > 0, "watchdog")
	p, q := t.twoProcesses()
	r := t.process()
	t.mustAcquire(p, lock.Options{})
	t.removeKey()
	lock.Abandon(t.mustAcquire(q, lock.Options{TTL: t.Renewed}))
	t.mustAcquireAfterLease(r, t.Renewed, "of a dead holder, whose predecessor lives,")
}

func toldWhenDeleted(t *trial) {
	lease := t.mustAcquire(t.process(), lock.Options{})
	t.removeKey()
	t.mustBeTold(lease, "was deleted", lock.ErrExpired)
}

func toldWhenStolen(t *trial) {
	lease := t.mustAcquire(t.process(), lock.Options{})
	t.removeKey()
	t.mustAcquire(t.process(), lock.Options{TTL: t.long})
	// A watchdog that checks between the two steps correctly finds an expired lock.
	t.mustBeTold(lease, "was stolen", lock.ErrLost, lock.ErrExpired)
}

func toldWhenExpired(t *trial) {
	lease := t.mustAcquire(t.process(), lock.Options{TTL: t.short})
	t.mustBeTold(lease, "ran out", lock.ErrExpired)
}

// mustBeTold waits as long as a watchdog may take to tell the holder.
func (t *trial) mustBeTold(l lock.Lease, what string, causes ...error) {
	limit := toldWithin + t.Renewed + t.tolerance
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-l.Lost():
	case <-timer.C:
		t.violated("%v after the lock %s its holder had not been told", limit, what)
	}
	cause := context.Cause(l.Context())
	for _, want := range causes {
		if errors.Is(cause, want) {
			return
		}
	}
	// A mechanism whose lock ends with its connection tells its holder after a while that the connection does not
	// answer: it cannot tell one that the server is slow to close from one that is cut off.
	if t.removal > toldWithin/2 {
		t.checkErr(&lateServerError{"remove the lock", t.removal, cause})
	}
	t.violated("the holder of a lock that %s was told %v", what, cause)
}

// toldBeforeOthersGetIn compares the moment at which a holder that is cut off from the
// server learns of its loss with the moment at which the next owner gets the lock.
// On real servers the goroutines that measure both may be late. So there is some slack, and more than one attempt.
func toldBeforeOthersGetIn(t *trial) {
	t.require(t.Renewed > 0, "watchdog")
	slack := min(t.tolerance, 10*time.Millisecond)
	p, network := t.processOnNetwork()
	q := t.process()
	best := time.Hour
	for range t.attempts {
		lease := t.mustAcquire(p, lock.Options{})
		network.Cut()
		next := t.acquireAsync(t.ctx, q, lock.Options{TTL: t.long, Wait: t.Renewed + promptly + t.tolerance})
		var told time.Time
		select {
		case <-lease.Lost():
			told = time.Now()
		case <-t.ctx.Done():
			t.violated("the holder was never told")
		}
		got := <-next
		network.Restore()
		if got.err != nil {
			t.violated("the lock of a holder without a server was not freed: %v", got.err)
		}
		t.mustRelease(got.lease)
		if best = min(best, told.Sub(got.at)); best <= slack {
			return
		}
	}
	t.violated("at best the holder was told %v after the next owner got the lock", best)
}
