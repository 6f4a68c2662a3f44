package experiments

import (
	"cmp"
	"context"
	"errors"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/lab/witness"
	"seckill/internal/testkit"
)

// A round trip over the slow network takes longer than a renewal may take with the tight watchdog, and is short for the
// wide one. The work outlasts several renewals.
const (
	slowRoundTrip = 80 * time.Millisecond
	tightWatchdog = 100 * time.Millisecond
	wideWatchdog  = 1500 * time.Millisecond
	slowWork      = 1200 * time.Millisecond
)

// The lost reply: the caller gives up after givesUp, and the network recovers at that moment. A key that is still there
// after cleanedBy was not cleaned up.
const (
	unseenLease = 2800 * time.Millisecond
	givesUp     = 300 * time.Millisecond
	cleanedBy   = 2100 * time.Millisecond
)

// networks are the experiments about the connection between a holder and its server.
func networks() []comparison {
	renewed := func(watchdog time.Duration) lab.Setup {
		return lab.Setup{Policy: policyFor("reentrant", 0, 5*time.Second), Watchdog: watchdog}
	}
	leased := func(mechanism string) lab.Setup {
		return lab.Setup{Policy: policyFor(mechanism, unseenLease, 5*time.Second)}
	}
	return []comparison{
		{text: "slow-network", scenario: holderFarAway, needs: []testbed.Server{testbed.Redis}, quiet: true, cases: []setupCase{
			{id: "watchdog-too-short-for-network", setup: renewed(tightWatchdog), breaks: kinds{finding.FalseAlarms}},
			{id: "watchdog-fits-network", setup: renewed(wideWatchdog), holds: kinds{finding.FalseAlarms, finding.Overlaps}},
		}, parameters: []lab.Parameter{
			lease(100*time.Millisecond, 5*time.Second), work(i18n.F("how long the holder works"), slowWork, 100*time.Millisecond, 3*time.Second),
		}},
		{text: "lost-reply", scenario: replyIsLost, needs: []testbed.Server{testbed.Redis}, quiet: true, cases: []setupCase{
			{id: "lost-reply-key-stays", setup: leased("naive"), breaks: kinds{finding.StuckKeys}},
			{id: "lost-reply-cleaned-up", setup: leased("reentrant"), holds: kinds{finding.StuckKeys, finding.Overlaps}},
		}, parameters: []lab.Parameter{lease(500*time.Millisecond, 4*time.Second)}},
		failingRenewals(),
	}
}

// holderFarAway makes a holder work over a slow network, while a client close to the server waits.
func holderFarAway(t *lab.Trial, setup lab.Setup) {
	c := newClients(t, setup)
	way := testkit.NewProxy(t, t.Redis().Addr())
	far := c.start("process-1", func(config *lockclient.Config) { config.RedisAddrs = []string{way.Addr()} })
	near := c.start("process-2")
	c.warmUp(far)
	way.Latency(slowRoundTrip)
	c.observe()

	const holder, waiter = "buyer 1", "buyer 2"
	g := c.take(far, c.request(holder))
	waits := c.startTaking(near, c.request(waiter))
	c.workUntilLoss(far, g.Lease, cmp.Or(setup.Work, slowWork))
	c.release(far, g.Lease)
	next := waits()
	t.Sleep(slowRoundTrip)
	c.release(near, next.Lease)

	evidence := c.evidence()
	story := witness.Story{
		Key: c.key, Who: []string{holder, waiter}, From: g.Asked, To: next.At,
		Summary: i18n.F("Buyer 1 gets the lock at %s, over a network that takes %d ms there and back, and holds it for the whole of its work; buyer 2 gets it at %s.",
			witness.At(g.At), slowRoundTrip.Milliseconds(), witness.At(next.At)),
	}
	alarms := falseAlarms(evidence.Events, far.Name())
	t.Found(finding.FalseAlarms, len(alarms))
	if len(alarms) > 0 {
		told := alarms[0].At // perhaps after its work, before its release
		t.Measure(i18n.F("told after"), millis(time.Duration(told-g.At)), i18n.F("ms"))
		story.Kind = finding.FalseAlarms
		story.To = max(next.At, told)
		story.Wrong = []witness.Wrong{{Who: holder, Mark: finding.Told}}
		story.Summary = i18n.F("Buyer 1 asks at %s and has its answer at %s, when %d of the %d ms of its lease are gone. No renewal can be answered in what is left: at %s it is told, and at %s buyer 2 has the lock.",
			witness.At(g.Asked), witness.At(g.At), g.Waited().Milliseconds(), setup.Watchdog.Milliseconds(), witness.At(told), witness.At(next.At))
		if setup.Watchdog-g.Waited() > slowRoundTrip {
			story.Summary = i18n.F("Buyer 1 gets the lock at %s. A renewal is not answered in time: at %s it is told, and at %s buyer 2 has the lock.",
				witness.At(g.At), witness.At(told), witness.At(next.At))
		}
	}
	t.Witness(witness.Tell(evidence, story))
	t.Judge(evidence)
}

// falseAlarms returns when the holders in a process were told that they had lost the lock. The process ran all the
// time, and nobody took the lock from it.
func falseAlarms(events []eventlog.Event, process string) (told []eventlog.Event) {
	for _, e := range events {
		if e.Process == process && e.Kind == eventlog.Lost {
			told = append(told, e)
		}
	}
	return told
}

// replyIsLost makes the server grant an acquisition without the caller learning of it.
func replyIsLost(t *lab.Trial, setup lab.Setup) {
	c := newClients(t, setup)
	way := testkit.NewProxy(t, t.Redis().Addr())
	process := c.start("process-1", func(config *lockclient.Config) { config.RedisAddrs = []string{way.Addr()} })
	other := c.start("process-2")
	c.warmUp(process)
	c.observe()

	const first, next = "buyer 1", "buyer 2"
	way.BlackholeReplies()
	over := t.Fault(i18n.F("Redis' replies to process-1 are lost"))
	req := c.request(first)
	req.Owner, req.Timeout = first, givesUp // named, so that the event log says whose key it is
	lost, err := process.Acquire(t.Context(), req)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the acquisition whose reply is lost ended with %w, not at its deadline", err)
	}
	way.Reset()
	over()
	req = c.request(next)
	req.Owner = next
	g := c.take(other, req)
	t.Sleep(givesUp / 3)
	c.release(other, g.Lease)

	evidence := c.evidence()
	taken, freed, ok := firstStored(evidence.Samples)
	if !ok {
		t.Fatalf("the store never had the key of %s: the request was lost with the reply", first)
	}
	t.Measure(i18n.F("the key stayed after the caller gave up"), millis(time.Duration(freed-lost.At)), i18n.F("ms"))
	t.Measure(i18n.F("the next buyer waited"), millis(g.Waited()), i18n.F("ms"))
	then := evidence.Until(taken + int64(cleanedBy))
	then.Grace = cleanedBy / 2
	story := witness.Story{
		Key: c.key, Who: []string{first, next}, From: lost.Asked, To: g.At,
		Summary: i18n.F("Redis has the key from %s on, and buyer 1, whose reply is lost, gives up at %s; the network is well again, the key goes at %s, and buyer 2 gets the lock at %s.",
			witness.At(taken), witness.At(lost.At), witness.At(min(freed, g.At)), witness.At(g.At)), // the key is only looked at now and then
	}
	if judge.Judge(then).Anomalies[finding.StuckKeys] > 0 {
		story.Kind = finding.StuckKeys
		story.Wrong = []witness.Wrong{{Who: first, Span: finding.Stored}}
	}
	t.Witness(witness.Tell(evidence, story))
	t.Judge(then)
}

// firstStored returns from when to when the store held its first value.
func firstStored(samples []judge.Sample) (from, to int64, ok bool) {
	var first judge.Sample
	for _, s := range samples {
		switch {
		case s.Err != "":
		case first.Stored.Owner == "":
			first = s
		case s.Stored.Owner != first.Stored.Owner:
			return first.At, s.At, true
		}
	}
	return 0, 0, false
}
