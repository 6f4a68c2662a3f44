package locktest

import (
	"context"
	"errors"
	"time"

	"seckill/internal/lock"
)

func keepsGivenLease(t *trial) {
	const given = 5 * time.Second
	lease := t.hold(t.process(), lock.Options{TTL: given})
	if left := lease.Remaining(); left > given || left < given-3*time.Second {
		t.violated("of a lease of %v just given %v remain", given, left)
	}
	t.leaseIs(given, "in the store")
	t.release(lease)
	if ttl := t.ttl(); ttl != 0 {
		t.violated("after the release the store still grants %v", ttl)
	}
}

func leaseRunsOut(t *trial) {
	p, q := t.rivals()
	t.hold(p, lock.Options{TTL: shortLease})
	t.getsIn(q, shortLease, "of a holder that lives")
}

// getsIn lets a stranger wait for the end of a lease.
func (t *trial) getsIn(p lock.Locker, lease time.Duration, which string) {
	got := <-t.start(t.ctx, p, lock.Options{TTL: longLease, Wait: lease + tolerance})
	if got.err != nil {
		t.violated("%v after the end of the lease of %v %s the lock was not free: %v", tolerance, lease, which, got.err)
	}
	t.release(got.lease)
}

func freedAfterDeath(t *trial) {
	p, q := t.rivals()
	t.hold(p, lock.Options{TTL: shortLease}).Abandon()
	t.getsIn(q, shortLease, "of a dead holder")
	if t.Renewed > 0 {
		t.hold(p, lock.Options{}).Abandon()
		t.getsIn(q, t.Renewed, "that a dead holder renewed")
	}
}

// survivesLongHold holds without a given lease for longer than the mechanism's
// own. A mechanism that renews must do so in time; one that does not is brought
// close to its end, as if the rest had passed.
func survivesLongHold(t *trial) {
	p, q := t.rivals()
	lease := t.hold(p, lock.Options{})
	watch := 2 * t.Renewed
	if t.Renewed == 0 {
		watch = 2 * shortLease
		if t.Store.Shorten != nil {
			t.check(t.Store.Shorten(t.ctx, t.key, shortLease))
		}
	}
	t.staysTaken(q, watch, "while its holder was still at work")
	if closed(lease.Lost()) {
		t.violated("a holder at work was told that it lost the lock: %v", context.Cause(lease.Context()))
	}
	if left := lease.Remaining(); left <= 0 {
		t.violated("a holder at work has %v left", left)
	}
	t.release(lease)
}

func renewalIsRetried(t *trial) {
	t.need(t.Renewed > 0, "watchdog")
	p, line := t.wired()
	lease := t.hold(p, lock.Options{})
	line.Cut() // long enough for a renewal, which comes at a third, to fail
	t.pass(t.Renewed / 2)
	line.Mend()
	t.staysTaken(t.process(), 2*t.Renewed, "after a short outage")
	if closed(lease.Lost()) {
		t.violated("after a short outage the holder was told: %v", context.Cause(lease.Context()))
	}
	t.release(lease)
}

func renewalEndsWithRelease(t *trial) {
	t.need(t.Renewed > 0, "watchdog")
	p, q := t.rivals()
	t.release(t.hold(p, lock.Options{}))
	fixed := t.hold(p, lock.Options{TTL: longLease})
	before := t.ttl()
	t.pass(t.Renewed)
	if after := t.ttl(); after > before-t.Renewed/2 || after < before-t.Renewed-3*time.Second {
		t.violated("a renewal that should be over turned %v into %v within %v", before, after, t.Renewed)
	}
	t.release(fixed)
	renewed := t.hold(p, lock.Options{})
	t.staysTaken(q, 2*t.Renewed, "although its new holder renews it")
	t.release(renewed)
}

func toldWhenDeleted(t *trial) {
	lease := t.hold(t.process(), lock.Options{})
	t.remove()
	t.mustBeTold(lease, "was deleted", lock.ErrExpired)
}

func toldWhenStolen(t *trial) {
	lease := t.hold(t.process(), lock.Options{})
	t.remove()
	t.hold(t.process(), lock.Options{TTL: longLease})
	// A watchdog that looks between the two sees an expired lock, and is right.
	t.mustBeTold(lease, "was stolen", lock.ErrLost, lock.ErrExpired)
}

func toldWhenExpired(t *trial) {
	lease := t.hold(t.process(), lock.Options{TTL: shortLease})
	t.mustBeTold(lease, "ran out", lock.ErrExpired)
}

// mustBeTold waits for the signal, for as long as a watchdog may take.
func (t *trial) mustBeTold(l lock.Lease, what string, causes ...error) {
	limit := notTold + t.Renewed
	if t.Renewed > 0 {
		limit += tolerance
	}
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
	t.violated("the holder of a lock that %s was told %v", what, cause)
}

// toldBeforeOthersGetIn compares the moment at which a holder without a server is
// told with the moment at which the next one gets in. Both are taken in this
// process by goroutines that may be late, hence the slack and the attempts.
func toldBeforeOthersGetIn(t *trial) {
	t.need(t.Renewed > 0, "watchdog")
	const slack, attempts = 10 * time.Millisecond, 3
	p, line := t.wired()
	q := t.process()
	best := time.Hour
	for range attempts {
		lease := t.hold(p, lock.Options{})
		line.Cut()
		next := t.start(t.ctx, q, lock.Options{TTL: longLease, Wait: t.Renewed + tolerance})
		var told time.Time
		select {
		case <-lease.Lost():
			told = time.Now()
		case <-t.ctx.Done():
			t.violated("the holder was never told")
		}
		got := <-next
		line.Mend()
		if got.err != nil {
			t.violated("the lock of a holder without a server was not freed: %v", got.err)
		}
		t.release(got.lease)
		if best = min(best, told.Sub(got.at)); best <= slack {
			return
		}
	}
	t.violated("at best the holder was told %v after the next one got in", best)
}
