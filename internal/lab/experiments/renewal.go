package experiments

import (
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/lab/witness"
	"seckill/internal/testkit"
)

const (
	// failingWatchdog is the lease that is renewed, after a third of it. The network is down for
	// the first renewal, from cutAfter to restoredAfter: much of the lease is left then.
	failingWatchdog = 2 * time.Second
	cutAfter        = 400 * time.Millisecond
	restoredAfter   = time.Second
	// outlivesLease is how long the holder works.
	outlivesLease = 3 * time.Second
)

// failingRenewals are the experiments about a renewal that fails once.
func failingRenewals() comparison {
	renewed := func(mechanism string, of flawed.Name) lab.Setup {
		return lab.Setup{Policy: policyFor(mechanism, 0, patience), Watchdog: failingWatchdog, Program: of}
	}
	return comparison{
		text: "failed-renewal", scenario: renewalFails, needs: []testbed.Server{testbed.Redis}, quiet: true, cases: []setupCase{
			{id: "renewal-not-retried", setup: renewed("lua", flawed.RenewalOnce), breaks: kinds{finding.Overlaps}},
			{id: "renewal-retried", setup: renewed("reentrant", ""), holds: kinds{finding.Overlaps, finding.FalseAlarms}},
		},
	}
}

// renewalFails cuts a working holder off while its first renewal is due, and not for long. A
// second buyer waits.
func renewalFails(t *lab.Trial, setup lab.Setup) {
	c := newClients(t, setup)
	way := testkit.NewProxy(t, t.Redis().Addr())
	holder := c.start("process-1", func(config *lockclient.Config) { config.RedisAddrs = []string{way.Addr()} })
	other := c.start("process-2")
	c.observe()

	g := c.take(holder, c.request(firstBuyer))
	waits := c.startTaking(other, c.request(secondBuyer))
	c.sleepUntil(g.At, cutAfter)
	way.Cut()
	over := t.Fault(i18n.F("process-1 cannot reach Redis"))
	c.sleepUntil(g.At, restoredAfter)
	way.Reset()
	over()
	restored := time.Now().UnixNano()
	c.sleepUntil(g.At, outlivesLease)
	told, err := holder.Told(t.Context(), g.Lease)
	c.Must(err)
	c.release(holder, g.Lease)
	later := waits()
	t.Sleep(namedPause)
	c.release(other, later.Lease)

	evidence := c.evidence()
	t.Found(finding.FalseAlarms, len(falseAlarms(evidence.Events, holder.Name())))
	t.Measure(i18n.F("buyer 2 was let in after buyer 1's grant"), millis(time.Duration(later.At-g.At)), i18n.F("ms"))
	story := witness.Story{
		Key: c.key, Who: []string{firstBuyer, secondBuyer}, From: g.Asked, To: later.At,
		Summary: i18n.F("Buyer 1 has the lock from %s on. A renewal fails; the network is well again at %s, the next renewal succeeds, and buyer 2 gets the lock at %s, when buyer 1 has released it.",
			witness.At(g.At), witness.At(restored), witness.At(later.At)),
	}
	if judge.Judge(evidence).Anomalies[finding.Overlaps] > 0 {
		story.Kind = finding.Overlaps
		ignorance := i18n.F("Nobody tells buyer 1")
		if told > 0 {
			ignorance = i18n.F("Buyer 1 is told at %s", witness.At(told))
		}
		story.Summary = i18n.F("Buyer 1 has the lock from %s on. A renewal fails, and none follows, though the network is well again at %s. The lease ends, and at %s buyer 2 is let in. %s.",
			witness.At(g.At), witness.At(restored), witness.At(later.At), ignorance)
	}
	t.Witness(witness.Tell(evidence, story))
	t.Judge(evidence)
}

// sleepUntil sleeps until d after a moment.
func (c *clients) sleepUntil(since int64, d time.Duration) {
	if left := time.Until(time.Unix(0, since).Add(d)); left > 0 {
		c.Sleep(left)
	}
}
