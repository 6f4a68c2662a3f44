package locktest

import (
	"context"
	"errors"
	"slices"
	"time"

	"seckill/internal/lock"
)

func extendsLease(t *trial) {
	const given, longer = 5 * time.Second, 20 * time.Second
	p, q := t.rivals()
	lease := t.hold(p, lock.Options{TTL: given})
	t.extend(lease, longer)
	t.runs(lease, longer, "extended")
	t.extend(lease, 0)
	t.runs(lease, given, "extended as it was given")
	for _, nonsense := range []time.Duration{-time.Second, lock.MinTTL - 1, lock.MaxTTL + 1} {
		if err := lease.Extend(t.ctx, nonsense); !errors.Is(err, lock.ErrInvalid) {
			t.violated("extending a lease by %v gave %v", nonsense, err)
		}
	}
	t.release(lease)
	if err := lease.Extend(t.ctx, given); !errors.Is(err, lock.ErrNotHeld) {
		t.violated("extending a lease that was released gave %v", err)
	}
	t.mustBeFree(q, "after a lease that had been extended was released")

	short := t.hold(p, lock.Options{TTL: 3 * shortLease})
	t.extend(short, longLease)
	t.staysTaken(q, 4*shortLease, "when the lease that was extended would have ended")
	if closed(short.Lost()) {
		t.violated("the holder of an extended lease was told: %v", context.Cause(short.Context()))
	}
	t.release(short)
	t.extendsNoLostLease(p, q)
}

// extendsNoLostLease tries to extend what the store has taken away.
func (t *trial) extendsNoLostLease(p, q lock.Locker) {
	if t.Store.Remove == nil {
		return
	}
	gone := func(l lock.Lease, which string, causes ...error) {
		err := l.Extend(t.ctx, longLease)
		if !slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) }) {
			t.violated("extending a lease %s gave %v", which, err)
		}
		if !closed(l.Lost()) {
			t.violated("Extend said %v, and the holder was not told", err)
		}
	}
	expired := t.hold(p, lock.Options{TTL: longLease})
	t.remove()
	gone(expired, "that is over", lock.ErrExpired)
	t.mustBeFree(q, "after an attempt to extend what was over")

	stolen := t.hold(p, lock.Options{TTL: longLease})
	t.remove()
	next := t.hold(q, lock.Options{TTL: 5 * time.Second})
	gone(stolen, "that went to somebody else", lock.ErrLost, lock.ErrExpired)
	if t.Store.TTL != nil {
		t.leaseIs(5*time.Second, "of the next holder, after an attempt to extend the last one's,")
	}
	t.release(next)
}

func (t *trial) extend(l lock.Lease, ttl time.Duration) {
	if err := l.Extend(t.ctx, ttl); err != nil {
		t.violated("extending a lease by %v gave %v", ttl, err)
	}
}

// runs compares what the holder and the store say of a lease that was just given.
func (t *trial) runs(l lock.Lease, ttl time.Duration, when string) {
	if left := l.Remaining(); left > ttl || left < ttl-3*time.Second {
		t.violated("of a lease %s to %v there remain %v", when, ttl, left)
	}
	if t.Store.TTL != nil {
		t.leaseIs(ttl, when)
	}
}

func saysWhoHolds(t *trial) {
	const given = 5 * time.Second
	p, q := t.rivals()
	t.inspect(p, lock.State{}, "while nobody holds the key")
	ctx := lock.WithOwner(t.ctx, lock.NewOwners().New())
	held := t.holdAs(ctx, p, lock.Options{TTL: given})
	state := lock.State{Owner: held.Owner(), Count: 1, Token: held.Token()}
	t.inspect(p, state, "by its holder's process")
	found := t.inspect(q, state, "by another process")
	if found.TTL > given && found.TTL != lock.NoExpiry || found.TTL < given-3*time.Second {
		t.violated("a lease of %v just given is said to run for %v", given, found.TTL)
	}
	if t.promises[Reenters].kind == holds {
		again := t.holdAs(ctx, p, lock.Options{TTL: given})
		state.Count = 2
		t.inspect(q, state, "after re-entry")
		state.Count = 1
		t.release(again)
	}

	waits, cancel := context.WithCancel(t.ctx)
	defer cancel()
	waiters := []<-chan outcome{
		t.start(waits, q, lock.Options{TTL: longLease, Wait: trialLimit}),
		t.start(waits, q, lock.Options{TTL: longLease, Wait: trialLimit}),
	}
	t.saysWaiting(q, len(waiters))
	t.inspect(q, state, "with two waiting")
	cancel()
	for _, w := range waiters {
		<-w
	}
	t.saysWaiting(q, 0)
	t.release(held)
	t.inspect(p, lock.State{}, "after the release")
	t.inspectsNoOutage()
}

// inspectsNoOutage asks without a server.
func (t *trial) inspectsNoOutage() {
	if !t.Remote {
		return
	}
	cutOff, line := t.wired()
	line.Cut()
	if _, err := cutOff.(lock.Inspector).Inspect(t.ctx, t.key); !errors.Is(err, lock.ErrUnavailable) {
		t.violated("asked without a server the mechanism gave %v", err)
	}
	line.Mend()
}

// inspect compares what is said of the trial's key with what is known of it.
func (t *trial) inspect(p lock.Locker, want lock.State, when string) lock.State {
	got := t.state(p, when)
	if got.Owner != want.Owner || got.Count != want.Count || got.Shared || want.Token != 0 && got.Token != want.Token {
		t.violated("asked %s it said %+v, not %+v", when, got, want)
	}
	if want.Owner == "" && got.TTL != 0 || want.Owner != "" && got.TTL <= 0 {
		t.violated("asked %s it said that the lease is %v", when, got.TTL)
	}
	return got
}

func (t *trial) state(p lock.Locker, when string) lock.State {
	inspector, ok := p.(lock.Inspector)
	if !ok {
		t.violated("the mechanism cannot be asked")
	}
	state, err := inspector.Inspect(t.ctx, t.key)
	if err != nil {
		t.violated("asked %s it gave %v", when, err)
	}
	return state
}

// saysWaiting waits until the mechanism counts n waiters, if it counts at all.
func (t *trial) saysWaiting(p lock.Locker, n int) {
	got := 0
	for limit := time.Now().Add(promptWait); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		if got = t.state(p, "who waits").Waiting; got == n || got == lock.WaitingUnknown {
			return
		}
	}
	t.violated("it counts %d waiters, and there are %d", got, n)
}

// canBeForced takes a lock away whose holder lives, which is the worst case.
func canBeForced(t *trial) {
	p, q := t.rivals()
	breaker, ok := t.process().(lock.Breaker)
	if !t.Remote {
		breaker, ok = p.(lock.Breaker) // processes that share no server share no locks
	}
	if !ok {
		t.violated("no lock can be taken away")
	}
	t.force(breaker, false, "a key that nobody holds")
	for _, opts := range []lock.Options{{TTL: longLease}, {}} {
		held := t.hold(p, opts)
		waiter := t.start(t.ctx, q, lock.Options{TTL: longLease, Wait: promptWait})
		t.pass(50 * time.Millisecond) // until it waits; if it does not yet, it has nothing to wait for
		forced := time.Now()
		t.force(breaker, true, "a key that somebody holds")
		got := <-waiter
		if got.err != nil {
			t.violated("a waiter did not get in: %v", got.err)
		}
		if late := got.at.Sub(forced); late > time.Second {
			t.violated("a waiter got in %v after the lock was taken from its holder", late)
		}
		if opts.TTL == 0 && t.promises[ToldWhenDeleted].kind == holds {
			t.mustBeTold(held, "was taken away", lock.ErrExpired, lock.ErrLost)
		}
		if err := held.Release(t.ctx); !errors.Is(err, lock.ErrExpired) && !errors.Is(err, lock.ErrLost) {
			t.violated("the late release by whom it was taken from gave %v", err)
		}
		t.mustBeTaken(p, "that a waiter got by force")
		t.release(got.lease)
		t.mustBeFree(p, "after it had been taken away and given back")
	}
	t.mustBeEmpty("after two locks that were taken away")
}

func (t *trial) force(b lock.Breaker, want bool, which string) {
	freed, err := b.ForceRelease(t.ctx, t.key)
	if err != nil || freed != want {
		t.violated("taking away %s gave %t, %v", which, freed, err)
	}
}

func asyncDelivers(t *trial) {
	p, q := t.rivals()
	opts := lock.Options{TTL: longLease, Wait: promptWait}
	ctx, cancel := context.WithCancel(t.ctx)
	results := lock.Async(ctx, p, t.key, opts)
	held := t.received(results)
	cancel() // too late: the lease is the receiver's
	t.mustBeTaken(q, "although the lease was received before its request was cancelled")

	next := lock.Async(t.ctx, q, t.key, opts)
	t.pass(30 * time.Millisecond)
	select {
	case <-next:
		t.violated("somebody else got the lock in the background")
	default:
	}
	ctx, cancel = context.WithCancel(t.ctx)
	given := lock.Async(ctx, q, t.key, opts)
	cancel()
	t.expectContextError((<-given).Err, context.Canceled)
	t.release(held)
	t.release(t.received(next))

	ctx, cancel = context.WithCancel(t.ctx)
	defer cancel()
	unwanted := lock.Async(ctx, p, t.key, opts)
	t.until("the result to be there", func() bool { return len(unwanted) > 0 })
	cancel()
	t.release(t.hold(q, lock.Options{TTL: longLease, Wait: anyWait}))
	t.expectContextError((<-unwanted).Err, context.Canceled)
	t.mustBeEmpty("after acquisitions in the background")
}

func (t *trial) received(results <-chan lock.Result) lock.Lease {
	select {
	case r := <-results:
		if r.Err != nil {
			t.violated("an acquisition in the background gave %v", r.Err)
		}
		t.keep(r.Lease)
		return r.Lease
	case <-t.ctx.Done():
		t.violated("an acquisition in the background came to nothing")
	}
	return nil
}

func tokenStaysOnReentry(t *trial) {
	p, q := t.process(), t.process()
	ctx := lock.WithOwner(t.ctx, lock.NewOwners().New())
	one := t.holdAs(ctx, p, lock.Options{TTL: longLease})
	if one.Token() == 0 {
		t.violated("there is no token")
	}
	for _, process := range []lock.Locker{p, q} {
		again := t.holdAs(ctx, process, lock.Options{TTL: longLease})
		if again.Token() != one.Token() {
			t.violated("re-entry changed the token from %d to %d", one.Token(), again.Token())
		}
		t.release(again)
	}
	t.release(one)
}

func tokensOutliveLock(t *trial) {
	p, q := t.rivals()
	var last uint64
	grows := func(l lock.Lease, after string) {
		if l.Token() <= last {
			t.violated("the token after %s is %d, the one before %d", after, l.Token(), last)
		}
		last = l.Token()
	}
	first := t.hold(p, lock.Options{TTL: longLease})
	grows(first, "nothing")
	t.release(first)
	dead := t.hold(q, lock.Options{TTL: shortLease})
	grows(dead, "a release")
	dead.Abandon()
	next := t.hold(p, lock.Options{TTL: longLease, Wait: shortLease + tolerance})
	grows(next, "the death of a holder")
	if t.Store.Remove != nil {
		t.remove()
		next = t.hold(q, lock.Options{TTL: longLease})
		grows(next, "a deletion")
	}
	t.release(next)
	next = t.hold(q, lock.Options{TTL: longLease})
	grows(next, "everything")
	t.release(next)
}
