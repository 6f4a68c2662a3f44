package locktest

import (
	"context"
	"errors"
	"slices"
	"time"

	"seckill/internal/lock"
)

func extendsLease(t *trial) {
	given, longer := t.given, 4*t.given
	p, q := t.twoProcesses()
	lease := t.mustAcquire(p, lock.Options{TTL: given})
	t.mustExtend(lease, longer)
	t.mustHaveLease(lease, longer, "extended")
	t.mustExtend(lease, 0)
	t.mustHaveLease(lease, given, "extended as it was given")
	for _, nonsense := range []time.Duration{-time.Second, lock.MinTTL - 1, lock.MaxTTL + 1} {
		if err := lease.Extend(t.ctx, nonsense); !errors.Is(err, lock.ErrInvalid) {
			t.violated("extending a lease by %v gave %v", nonsense, err)
		}
	}
	t.mustRelease(lease)
	if err := lease.Extend(t.ctx, given); !errors.Is(err, lock.ErrNotHeld) {
		t.violated("extending a lease that was released gave %v", err)
	}
	t.mustBeFree(q, "after an extended lease was released")

	if t.timed {
		short := t.mustAcquire(p, lock.Options{TTL: 3 * t.short})
		t.mustExtend(short, t.long)
		t.mustStayTaken(q, 4*t.short, "at the end of the lease before it was extended")
		if closed(short.Lost()) {
			t.violated("the holder of an extended lease was told that it lost the lock: %v", context.Cause(short.Context()))
		}
		t.mustRelease(short)
	}
	t.mustNotExtendLostLease(p, q)
}

// mustNotExtendLostLease tries to extend leases that the store no longer has.
func (t *trial) mustNotExtendLostLease(p, q lock.Locker) {
	if t.Store.Remove == nil {
		return
	}
	gone := func(l lock.Lease, which string, causes ...error) {
		err := l.Extend(t.ctx, t.long)
		if !slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) }) {
			t.violated("extending a lease %s gave %v", which, err)
		}
		if !closed(l.Lost()) {
			t.violated("Extend gave %v, but the holder was not told", err)
		}
	}
	expired := t.mustAcquire(p, lock.Options{TTL: t.long})
	t.removeKey()
	gone(expired, "that has ended", lock.ErrExpired)
	t.mustBeFree(q, "after an attempt to extend a lease that had ended")

	stolen := t.mustAcquire(p, lock.Options{TTL: t.long})
	t.removeKey()
	next := t.mustAcquire(q, lock.Options{TTL: t.given})
	gone(stolen, "that another owner has by now", lock.ErrLost, lock.ErrExpired)
	if t.Store.TTL != nil {
		t.mustStoreLease(t.given, "of the next holder, after an attempt to extend the last one's,")
	}
	t.mustRelease(next)
}

func (t *trial) mustExtend(l lock.Lease, ttl time.Duration) {
	if err := l.Extend(t.ctx, ttl); err != nil {
		t.violated("extending a lease by %v gave %v", ttl, err)
	}
}

// mustHaveLease compares the lease that was just given with what the holder and the
// store report.
func (t *trial) mustHaveLease(l lock.Lease, ttl time.Duration, when string) {
	if left := l.Remaining(); left > ttl || left < ttl-t.margin(ttl) {
		t.violated("of a lease %s to %v only %v remain", when, ttl, left)
	}
	if t.Store.TTL != nil {
		t.mustStoreLease(ttl, when)
	}
}

func saysWhoHolds(t *trial) {
	given := t.given
	p, q := t.twoProcesses()
	t.mustInspect(p, lock.State{}, "while nobody holds the key")
	ctx := lock.WithOwner(t.ctx, lock.NewOwners().New())
	held := t.mustAcquireAs(ctx, p, lock.Options{TTL: given})
	state := lock.State{Owner: held.Owner(), Count: 1, Token: held.Token()}
	t.mustInspect(p, state, "by its holder's process")
	found := t.mustInspect(q, state, "by another process")
	if found.TTL > given && found.TTL != lock.NoExpiry || found.TTL < given-t.slack {
		t.violated("according to Inspect a lease of %v just granted runs for %v", given, found.TTL)
	}
	if t.promises[Reenters].kind == holds {
		again := t.mustAcquireAs(ctx, p, lock.Options{TTL: given})
		state.Count = 2
		t.mustInspect(q, state, "after re-entry")
		state.Count = 1
		t.mustRelease(again)
	}

	waits, cancel := context.WithCancel(t.ctx)
	defer cancel()
	waiters := []<-chan outcome{
		t.acquireAsync(waits, q, lock.Options{TTL: t.long, Wait: t.limit}),
		t.acquireAsync(waits, q, lock.Options{TTL: t.long, Wait: t.limit}),
	}
	t.mustCountWaiters(q, len(waiters))
	t.mustInspect(q, state, "with two waiters")
	cancel()
	for _, w := range waiters {
		<-w
	}
	t.mustCountWaiters(q, 0)
	t.mustRelease(held)
	// The request of a cancelled waiter may reach the server after the release. The waiter then gives the lock back.
	t.eventually("the key to be free", func() bool { return t.state(p, "after the release").Owner == "" })
	t.mustInspect(p, lock.State{}, "after the release")
	t.mustReportOutage()
}

// mustReportOutage calls Inspect without a server.
func (t *trial) mustReportOutage() {
	if !t.Remote {
		return
	}
	cutOff, network := t.processOnNetwork()
	network.Cut()
	if _, err := cutOff.(lock.Inspector).Inspect(t.ctx, t.key); !errors.Is(err, lock.ErrUnavailable) {
		t.violated("without a server Inspect gave %v", err)
	}
	network.Restore()
}

// mustInspect compares what Inspect returns for the trial's key with want.
func (t *trial) mustInspect(p lock.Locker, want lock.State, when string) lock.State {
	got := t.state(p, when)
	if got.Owner != want.Owner || got.Count != want.Count || got.Shared || want.Token != 0 && got.Token != want.Token {
		t.violated("Inspect %s gave %+v, want %+v", when, got, want)
	}
	if want.Owner == "" && got.TTL != 0 || want.Owner != "" && got.TTL <= 0 {
		t.violated("Inspect %s gave a lease of %v", when, got.TTL)
	}
	return got
}

func (t *trial) state(p lock.Locker, when string) lock.State {
	inspector, ok := p.(lock.Inspector)
	if !ok {
		t.violated("the mechanism has no Inspect")
	}
	state, err := inspector.Inspect(t.ctx, t.key)
	if err != nil {
		t.violated("Inspect %s gave %v", when, err)
	}
	return state
}

// mustCountWaiters waits until Inspect counts n waiters, if the mechanism can count
// them.
func (t *trial) mustCountWaiters(p lock.Locker, n int) {
	got := 0
	for limit := time.Now().Add(t.prompt); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		if got = t.state(p, "for the waiters").Waiting; got == n || got == lock.WaitingUnknown {
			return
		}
	}
	t.violated("Inspect counts %d waiters, want %d", got, n)
}

// canBeForced takes a lock away from a live holder, which is the worst case. The next waiter
// gets it within a second; of several attempts, since on a busy machine one may be late.
func canBeForced(t *trial) {
	p, q := t.twoProcesses()
	breaker, ok := t.process().(lock.ForceReleaser)
	if !t.Remote {
		breaker, ok = p.(lock.ForceReleaser) // without a server, two processes share no locks
	}
	if !ok {
		t.violated("the mechanism has no ForceRelease")
	}
	t.mustForce(breaker, false, "of a key that nobody holds")
	for _, opts := range []lock.Options{{TTL: t.long}, {}} {
		late := t.force(breaker, p, q, opts)
		for n := 1; n < t.attempts && late > t.noticed(); n++ {
			late = t.force(breaker, p, q, opts)
		}
		if late > t.noticed() {
			t.violated("a waiter got the lock %v after it was taken from its holder", late)
		}
	}
	t.mustBeEmpty("after forced releases")
}

// force takes a lock from p while q waits. It returns how long q then waited.
func (t *trial) force(breaker lock.ForceReleaser, p, q lock.Locker, opts lock.Options) (late time.Duration) {
	held := t.mustAcquire(p, opts)
	waiter := t.acquireAsync(t.ctx, q, lock.Options{TTL: t.long, Wait: t.prompt})
	t.sleep(50 * time.Millisecond) // until it waits; if it does not wait yet, it finds a free key
	forced := time.Now()
	t.measureRemoval(func() { t.mustForce(breaker, true, "of a held key") })
	got := <-waiter
	if got.err != nil {
		t.violated("a waiter did not get the lock: %v", got.err)
	}
	if t.timed && opts.TTL == 0 && t.promises[ToldWhenDeleted].kind == holds {
		t.mustBeTold(held, "was taken away", lock.ErrExpired, lock.ErrLost)
	}
	if err := held.Release(t.ctx); !errors.Is(err, lock.ErrExpired) && !errors.Is(err, lock.ErrLost) {
		t.violated("the late release by the previous holder gave %v", err)
	}
	t.mustBeTaken(p, "that a waiter got after a forced release")
	t.mustRelease(got.lease)
	t.mustBeFree(p, "after it was taken away and then released")
	return got.at.Sub(forced)
}

func (t *trial) mustForce(b lock.ForceReleaser, want bool, which string) {
	freed, err := b.ForceRelease(t.ctx, t.key)
	if err != nil || freed != want {
		t.violated("a forced release %s gave %t, %v", which, freed, err)
	}
}

func outlivesContext(t *trial) {
	p, q := t.twoProcesses()
	ctx, cancel := context.WithCancel(t.ctx)
	held := t.mustAcquireAs(ctx, p, lock.Options{TTL: t.long, Wait: t.prompt})
	cancel()
	t.sleep(30 * time.Millisecond) // in which a lock that goes with that context would be released
	t.mustBeTaken(q, "although the context that was cancelled is only that of its acquisition")
	t.mustRelease(held)
	t.mustBeFree(q, "after a release beyond the context of its acquisition")
}

func tokenStaysOnReentry(t *trial) {
	p, q := t.process(), t.process()
	ctx := lock.WithOwner(t.ctx, lock.NewOwners().New())
	one := t.mustAcquireAs(ctx, p, lock.Options{TTL: t.long})
	if one.Token() == 0 {
		t.violated("there is no token")
	}
	for _, process := range []lock.Locker{p, q} {
		again := t.mustAcquireAs(ctx, process, lock.Options{TTL: t.long})
		if again.Token() != one.Token() {
			t.violated("re-entry changed the token from %d to %d", one.Token(), again.Token())
		}
		t.mustRelease(again)
	}
	t.mustRelease(one)
}

func tokensOutliveLock(t *trial) {
	p, q := t.twoProcesses()
	var last uint64
	grows := func(l lock.Lease, after string) {
		if l.Token() <= last {
			t.violated("the token after %s is %d, the one before it was %d", after, l.Token(), last)
		}
		last = l.Token()
	}
	first := t.mustAcquire(p, lock.Options{TTL: t.long})
	grows(first, "the start")
	t.mustRelease(first)
	dead := t.mustAcquire(q, lock.Options{TTL: t.short})
	grows(dead, "a release")
	lock.Abandon(dead)
	next := t.mustAcquire(p, lock.Options{TTL: t.long, Wait: t.short + promptly + t.tolerance})
	grows(next, "the death of a holder")
	if t.Store.Remove != nil {
		t.removeKey()
		next = t.mustAcquire(q, lock.Options{TTL: t.long})
		grows(next, "a deletion")
	}
	t.mustRelease(next)
	next = t.mustAcquire(q, lock.Options{TTL: t.long})
	grows(next, "all of these")
	t.mustRelease(next)
}
