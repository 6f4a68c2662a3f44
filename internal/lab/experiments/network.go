package experiments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/actor"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/stage"
	"seckill/internal/testkit"
	"seckill/internal/trace"
)

// networks are the experiments about the way between a holder and its server.
func networks() lab.Set {
	return slices.Concat(slowNetwork(), lostReply())
}

// A round trip over the slow network takes longer than the tight watchdog's renewal
// has time, and is nothing to the wide one. The work outlasts several renewals.
const (
	slowRoundTrip = 80 * time.Millisecond
	tightWatchdog = 100 * time.Millisecond
	wideWatchdog  = 1500 * time.Millisecond
	slowWork      = 1200 * time.Millisecond
)

func slowNetwork() lab.Set {
	const group = "A watchdog and a slow network"
	return lab.Set{
		{
			ID: "watchdog-too-short-for-network", Group: group, Title: "A watchdog of 100 ms over a slow network",
			Sources: []lab.Source{
				{Document: "003", Section: "Watch Dog: extending automatically"},
				{Document: "001", Section: "How the watchdog works"},
			},
			Hypothesis: "With a watchdog timeout of 100 ms over a network that takes 80 ms for a round trip, a holder that is alive and renews loses its lock in the middle of its work.",
			Arrangement: "The way between the holder and Redis is made to take 80 ms for a round trip. The holder works for 1.2 s under a lock that is renewed, lease 100 ms; " +
				"a second process, close to Redis, waits for the lock.",
			Why: "The lease is counted from before the attempt, so 80 of its 100 ms are gone when the answer arrives. A renewal that starts at that moment has its answer 80 ms later, and long before that " +
				"the holder can no longer prove that the lock is its own. It is told, and the next one gets in. Nobody died and nobody was paused; the watchdog was simply set shorter than the network " +
				"can serve. Because the holder counts from the safe end, it stops in time and there are no two holders, but its work is cut off, every time. " +
				"A lease has to leave room for several attempts to renew it.",
			Seen:    "a healthy holder is told in the middle of its work that its lock is lost",
			Cure:    "A watchdog timeout of many round trips: some seconds at least, 30 s by default (watchdog-fits-network).",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.FalseAlarms},
			Partner: "watchdog-fits-network",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("reentrant", 0, 5*time.Second), Watchdog: tightWatchdog},
			Scene:   holderFarAway,
		},
		{
			ID: "watchdog-fits-network", Group: group, Title: "A watchdog that has time for the network",
			Sources: []lab.Source{
				{Document: "003", Section: "Watch Dog: extending automatically"},
				{Document: "000", Section: "Retrying the lock, and the watchdog mechanism"},
			},
			Hypothesis:  "Over the same network a holder whose watchdog timeout is 1.5 s keeps its lock for the whole of its work.",
			Arrangement: "The same slow way, holder, work of 1.2 s and second process; the lease is 1.5 s.",
			Why: "The lease is renewed when a third of it is over, after 500 ms. A renewal that takes 80 ms then comes almost a second before the end, and there would be time for several more " +
				"attempts if it failed. What a longer watchdog costs is paid only when a process dies: its locks then stay for so much longer. " +
				"So the timeout is chosen from both sides: many times the slowest round trip and the longest pause that are to be survived, and not much longer than the others can be " +
				"made to wait for a dead holder.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.FalseAlarms, finding.Overlaps},
			Partner: "watchdog-too-short-for-network",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("reentrant", 0, 5*time.Second), Watchdog: wideWatchdog},
			Scene:   holderFarAway,
		},
	}
}

// The lost reply: the caller gives up after givesUp, and the network is well again
// at that moment. What is still there after cleanedBy was not cleaned up.
const (
	unseenLease = 2800 * time.Millisecond
	givesUp     = 300 * time.Millisecond
	cleanedBy   = 2100 * time.Millisecond
)

func lostReply() lab.Set {
	const group = "A reply that is lost"
	return lab.Set{
		{
			ID: "lost-reply-key-stays", Group: group, Title: "The lock is taken, and nobody was told",
			Sources: []lab.Source{
				{Document: "003", Section: "Where lock and unlock belong"},
			},
			Hypothesis: "When the reply to the acquisition is lost and the caller gives up, the key stays for its whole lease though nobody holds it.",
			Arrangement: "What Redis replies to the buyer's process is swallowed. The buyer's SET gets through, it gives up at its deadline after 300 ms, and the network is well again. " +
				"The lease is 2.8 s; a second buyer waits for the lock.",
			Why: "A command without an answer is not a command that failed: nobody knows. Here Redis carried it out and set the key, the reply was lost on the way back, and the caller " +
				"saw a timeout. It cannot release: it has no lease in its hands, and this mechanism's release is a blind DEL, which might hit somebody else's lock. " +
				"So the key protects nothing and stays until it expires. Whoever puts the acquisition before the try block, as the document warns, has the same gap in its own code. " +
				"A mechanism that knows its own value can look for it and take it back.",
			Seen:    "a caller is told that it timed out, and the key is taken for the rest of the lease",
			Cure:    "A value of one's own for each attempt, and a clean-up in the background after every unknown outcome (lost-reply-cleaned-up).",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.StuckKeys},
			Partner: "lost-reply-cleaned-up",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("naive", unseenLease, 5*time.Second)},
			Scene:   replyIsLost,
		},
		{
			ID: "lost-reply-cleaned-up", Group: group, Title: "What nobody was told of is taken back",
			Sources: []lab.Source{
				{Document: "003", Section: "Where lock and unlock belong"},
				{Document: "002", Section: "Reading the source of releasing a lock"},
			},
			Hypothesis:  "A mechanism that treats a missing reply as an unknown outcome takes the key back as soon as the network allows, long before its lease ends.",
			Arrangement: "The same lost reply, deadline, lease and second buyer.",
			Why: "The acquisition carries an id of its own, which stands in the key. When its outcome is unknown the caller gets its error in time, and in the background the mechanism sends releases " +
				"for that id, on time of its own, until the server has answered and the attempt can no longer arrive. A release of an id that is not there changes nothing, " +
				"so asking too often does no harm and nobody else's lock is in danger. The key is gone within a moment of the network's recovery, and the second buyer, who waits for a message, " +
				"is woken by that release as by any other.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.StuckKeys, finding.Overlaps},
			Partner: "lost-reply-key-stays",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("reentrant", unseenLease, 5*time.Second)},
			Scene:   replyIsLost,
		},
	}
}

// holderFarAway has a holder work over a slow network, while somebody close to the
// server waits.
func holderFarAway(p *lab.Play, with lab.Setup) {
	c := gather(p, with)
	way := testkit.NewProxy(p, p.Redis().Addr())
	far := c.hire("shop-1", func(config *actor.Config) { config.RedisAddrs = []string{way.Addr()} })
	near := c.hire("shop-2")
	c.warm(far)
	way.Latency(slowRoundTrip)
	c.observe()

	const holder, waiter = "buyer 1", "buyer 2"
	g, err := far.Acquire(p.Context(), c.ask(holder))
	c.must(err)
	var next actor.Grant
	waits := p.Go(func() {
		var err error
		next, err = near.Acquire(p.Context(), c.ask(waiter))
		c.must(err)
	})
	told := c.work(far, g.Lease, slowWork)
	c.letGo(far, g.Lease)
	waits()
	p.Pause(slowRoundTrip)
	c.letGo(near, next.Lease)

	evidence := c.evidence()
	story := judge.Story{
		Key: c.key, Who: []string{holder, waiter}, From: g.Asked, To: next.At,
		Summary: func(when func(int64) string) string {
			return fmt.Sprintf("Buyer 1 gets the lock at %s, over a network that takes %d ms there and back, and holds it for the whole of its work; buyer 2 gets it at %s.",
				when(g.At), slowRoundTrip.Milliseconds(), when(next.At))
		},
	}
	alarms := falseAlarms(evidence.Events, far.Name())
	p.Found(finding.FalseAlarms, alarms)
	if alarms > 0 {
		p.Measure("told after", millis(time.Duration(told.ToldAt-g.At)), "ms")
		story.Kind = finding.FalseAlarms
		story.To = max(next.At, told.ToldAt)
		story.Wrong = []judge.Wrong{{Who: holder, Mark: finding.Told}}
		story.Summary = func(when func(int64) string) string {
			return fmt.Sprintf("Buyer 1 asks at %s and has its answer at %s, when %d of the %d ms of its lease are gone. No renewal can be answered in what is left: at %s it is told, and at %s buyer 2 has the lock.",
				when(g.Asked), when(g.At), g.Waited().Milliseconds(), with.Watchdog.Milliseconds(), when(told.ToldAt), when(next.At))
		}
	}
	p.Witness(judge.Tell(evidence, story))
	p.Judge(evidence)
}

// falseAlarms counts the holders in a process that were told that they lost the lock.
// The process ran all the time, and nobody took the lock from it.
func falseAlarms(events []trace.Event, process string) int {
	n := 0
	for _, e := range events {
		if e.Process == process && e.Kind == trace.Lost {
			n++
		}
	}
	return n
}

// replyIsLost has an acquisition be granted without the caller's hearing of it.
func replyIsLost(p *lab.Play, with lab.Setup) {
	c := gather(p, with)
	way := testkit.NewProxy(p, p.Redis().Addr())
	shop := c.hire("shop-1", func(config *actor.Config) { config.RedisAddrs = []string{way.Addr()} })
	other := c.hire("shop-2")
	c.warm(shop)
	c.observe()

	const first, next = "buyer 1", "buyer 2"
	way.BlackholeReplies()
	over := p.Fault("Redis' replies to shop-1 are lost")
	asks := c.ask(first)
	asks.Owner, asks.Timeout = first, givesUp // named, so that the key says in the trace whose it is
	lost, err := shop.Acquire(p.Context(), asks)
	if !errors.Is(err, context.DeadlineExceeded) {
		p.Fatalf("the acquisition whose reply is lost ended with %w, not at its deadline", err)
	}
	way.Reset()
	over()
	asks = c.ask(next)
	asks.Owner = next
	g, err := other.Acquire(p.Context(), asks)
	c.must(err)
	p.Pause(givesUp / 3)
	c.letGo(other, g.Lease)

	evidence := c.evidence()
	taken, freed, ok := firstKept(evidence.Samples)
	if !ok {
		p.Fatalf("the store never had the key of %s: the request was lost with the reply", first)
	}
	p.Measure("the key stayed after the caller gave up", millis(time.Duration(freed-lost.At)), "ms")
	p.Measure("the next buyer waited", millis(g.Waited()), "ms")
	then := until(evidence, taken+int64(cleanedBy))
	then.Grace = cleanedBy / 2
	story := judge.Story{
		Key: c.key, Who: []string{first, next}, From: lost.Asked, To: g.At,
		Summary: func(when func(int64) string) string {
			return fmt.Sprintf("Redis has the key from %s on, and buyer 1, whose reply is lost, gives up at %s; the network is well again, the key goes at %s, and buyer 2 gets the lock at %s.",
				when(taken), when(lost.At), when(freed), when(g.At))
		},
	}
	if judge.Judge(then).Anomalies[finding.StuckKeys] > 0 {
		story.Kind = finding.StuckKeys
		story.Wrong = []judge.Wrong{{Who: first, Span: finding.Stored}}
	}
	p.Witness(judge.Tell(evidence, story))
	p.Judge(then)
}

// firstKept is from when to when the store had what it had first.
func firstKept(samples []judge.Sample) (from, to int64, ok bool) {
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
