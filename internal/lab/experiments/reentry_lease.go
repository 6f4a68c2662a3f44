package experiments

import (
	"slices"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/testbed"
	"seckill/internal/lab/witness"
)

// A long outer lease and a short inner one; and two equal ones, of which the outer would be over before its work is, and
// the one that the inner call has set ends in between.
const (
	longOuter, shortInner = 3 * time.Second, 300 * time.Millisecond
	equalLease            = 1500 * time.Millisecond
)

// innerLeases are the experiments about the lease of an inner call.
func innerLeases() comparison {
	leases := func(program flawed.Name, outer, inner time.Duration) lab.Setup {
		return lab.Setup{Policy: policyFor("reentrant", outer, patience), Inner: inner, Program: program}
	}
	short, again := lab.Scenario(shortInnerLease), lab.Scenario(releasesAndWorksOn)
	return comparison{
		text: "inner-lease", scenario: short, needs: []testbed.Server{testbed.Redis}, quiet: true, cases: []setupCase{
			{id: "hash-inner-lease", setup: leases(flawed.HashLock, longOuter, shortInner), breaks: kinds{finding.Overlaps}},
			{id: "reentrant-inner-lease", setup: leases("", longOuter, shortInner), holds: kinds{finding.Overlaps}},
			{
				id: "hash-release-keeps-end", setup: leases(flawed.HashLockKeepsEnd, equalLease, equalLease), scenario: again,
				breaks: kinds{finding.Overlaps}, partner: "hash-release-sets-again",
			},
			{
				id: "hash-release-sets-again", setup: leases(flawed.HashLock, equalLease, equalLease), scenario: again,
				holds: kinds{finding.Overlaps}, partner: "hash-release-keeps-end",
			},
		},
	}
}

// shortInnerLease has the outer call work on for much longer than the inner lease, and much less than its own.
func shortInnerLease(t *lab.Trial, setup lab.Setup) {
	nestLeases(t, setup, nesting{inner: 100 * time.Millisecond, left: 200 * time.Millisecond, done: 1300 * time.Millisecond})
}

// releasesAndWorksOn has the inner call enter in the middle of the outer lease, and leave in the middle of its own. The outer
// call works on beyond what is left of that.
func releasesAndWorksOn(t *lab.Trial, setup lab.Setup) {
	nestLeases(t, setup, nesting{inner: equalLease / 2, left: equalLease/2 + 900*time.Millisecond, done: 2700 * time.Millisecond})
}

// nesting is when the inner call acquires and releases, and the outer one releases, after it has acquired.
type nesting struct{ inner, left, done time.Duration }

// nestLeases makes a call that holds the lock make another one, which asks for a lease of its own, while a second process
// waits for the lock.
func nestLeases(t *lab.Trial, setup lab.Setup, at nesting) {
	const outer, next = "order 1", "order 2"
	c := newClients(t, setup)
	process, other := c.start("process-1"), c.start("process-2")
	c.warmUp(other)
	c.observe()
	req := c.request(outer)
	req.Owner = "order 1" // of both calls
	g := c.take(process, req)
	waits := c.startTaking(other, c.request(next))
	t.Until(next+" to ask", func() bool { return slices.ContainsFunc(other.Events(), requestedBy(next)) })

	c.sleepUntil(g.At, at.inner)
	req.TTL = setup.Inner
	inner := c.take(process, req)
	c.sleepUntil(g.At, at.left)
	c.release(process, inner.Lease)
	left := time.Now().UnixNano()
	c.sleepUntil(g.At, at.done)
	c.release(process, g.Lease)
	later := waits()
	t.Sleep(overlapTime)
	c.release(other, later.Lease)

	evidence := c.evidence()
	t.Measure(i18n.F("the second order was let in after the first one"), millis(time.Duration(later.At-g.At)), i18n.F("ms"))
	story := witness.Story{
		Key: c.key, Who: []string{outer, next}, From: g.Asked, To: max(later.At, g.At+int64(at.done)),
		Moments: []witness.Moment{
			{Who: outer, At: inner.At, Kind: finding.Notes, Label: i18n.F("inner call: lease %d ms", setup.Inner.Milliseconds())},
			{Who: outer, At: left, Kind: finding.Notes, Label: i18n.F("inner call is done")},
		},
		Summary: i18n.F("Order 1 asks for %d ms, and its inner call at %s for %d ms. The inner call is done at %s, order 1 keeps the lock to its end, and order 2 gets it at %s.",
			setup.Policy.LockTTLMS, witness.At(inner.At), setup.Inner.Milliseconds(), witness.At(left), witness.At(later.At)),
	}
	if judge.Look(evidence).Anomalies[finding.Overlaps] > 0 {
		story.Kind = finding.Overlaps
		story.Wrong = []witness.Wrong{{Who: next, Span: finding.Held}}
		story.Summary = i18n.F("Order 1 asks for %d ms, and its inner call at %s for %d ms. The inner call is done at %s. At %s the lease that it has set is over, and order 2 gets the lock, while order 1 works on.",
			setup.Policy.LockTTLMS, witness.At(inner.At), setup.Inner.Milliseconds(), witness.At(left), witness.At(later.At))
	}
	t.Witness(witness.Tell(evidence, story))
	t.Judge(evidence)
}
