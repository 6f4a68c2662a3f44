package experiments

import (
	"fmt"
	"math"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/actor"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/stage"
	"seckill/internal/trace"
)

const (
	// herdOf is how many buyers wait while another one holds the lock, each in a
	// process of its own.
	herdOf = 4
	// herdWork is how long each holds it, and herdPatience longer than any has to wait.
	herdWork     = 100 * time.Millisecond
	herdPatience = 20 * time.Second
)

// herds are the experiments about who wakes when a lock is given back.
func herds() lab.Set {
	const group = "Who wakes at a release"
	return lab.Set{
		{
			ID: "zk-herd", Group: group, Title: "Everybody watches one node, and everybody wakes",
			Sources: []lab.Source{
				{Document: "001", Section: "Node types and watches of ZooKeeper"},
				{Document: "001", Section: "How it is done"},
			},
			Hypothesis: "When all who wait watch the one node that is the lock, each release wakes all of them, though only one can get in.",
			Arrangement: "Buyer 1 creates the ephemeral node; four more buyers, each in a process of its own, find it taken and watch it. Each holds the lock for 100 ms. A relay between each process and ZooKeeper " +
				"counts what the server tells it and what it asks for.",
			Why: "A watch is a subscription to a change, and here all have subscribed to the same one. When the node goes, the server tells everybody; everybody tries to create the node; one succeeds, and the others have to be told no and to set " +
				"their watch again, which fires only once. Of N who wait, N-1 wake in vain, at every release: about N² messages until all had their turn. " +
				"With four nobody notices. With a thousand buyers in a flash sale it is what the server is busy with. The order is lost, too: " +
				"whoever wakes quickest gets in. Nobody needs to hear of a release but the one whose turn it is.",
			Seen:    "each release wakes everybody who waits, and all but one of them in vain",
			Cure:    "Ephemeral sequential nodes, of which each waiter watches only the one before its own (zk-queue-wakes-one).",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.Herds},
			Partner: "zk-queue-wakes-one",
			Needs:   []stage.Server{stage.ZooKeeper},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("zk-node", 0, herdPatience)},
			Scene:   releasesWake,
		},
		{
			ID: "zk-queue-wakes-one", Group: group, Title: "Each watches the one before, and one wakes",
			Sources: []lab.Source{
				{Document: "001", Section: "Node types and watches of ZooKeeper"},
				{Document: "001", Section: "Summary: how ZooKeeper makes a distributed lock"},
			},
			Hypothesis:  "When each who waits has a node of its own, numbered by the server, and watches only the one before it, a release wakes exactly one.",
			Arrangement: "The same buyers, processes and relays; each buyer creates an ephemeral sequential node below the lock's.",
			Why: "The server numbers the nodes as they come, so the queue is there without anybody's keeping it, and the first in it holds the lock. Whoever waits needs to know one thing only: that the one before has gone. " +
				"A release therefore is told to one process, which looks at the list once, since the one before may also have given up in the middle of the queue. N waiters cost N wake-ups in all and not about N²/2, " +
				"and they are served in the order in which they came. " +
				"The price: a waiter that is cut off when its turn comes holds up everybody behind it until its session ends.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.Herds},
			Partner: "zk-herd",
			Needs:   []stage.Server{stage.ZooKeeper},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("zk-queue", 0, herdPatience)},
			Scene:   releasesWake,
		},
	}
}

// waiter is a buyer in a process of its own.
type waiter struct {
	who string
	*actor.Actor
	*relay
}

// releasesWake has buyers wait for a lock, and counts whom each release wakes.
func releasesWake(p *lab.Play, with lab.Setup) {
	c := gather(p, with)
	waiters := make([]*waiter, 1+herdOf)
	for i := range waiters {
		w := &waiter{who: fmt.Sprintf("buyer %d", i+1), relay: between(p, p.ZooKeeper().Addr())}
		w.Actor = c.hire(fmt.Sprintf("shop-%d", i+1), c.serve, func(config *actor.Config) {
			config.ZooKeeperAddrs = []string{w.addr()}
		})
		waiters[i] = w
	}
	c.observe()

	holder := waiters[0]
	g, err := holder.Acquire(p.Context(), c.ask(holder.who))
	c.must(err)
	var left []func()
	for _, w := range waiters[1:] {
		left = append(left, p.Go(func() {
			g, err := w.Acquire(p.Context(), c.ask(w.who))
			c.must(err)
			p.Pause(herdWork)
			c.letGo(w.Actor, g.Lease)
		}))
		c.await(w.who+" to ask", askedBy(w.who))
		p.Until(w.who+" to watch", w.watches)
	}
	p.Pause(herdWork)
	c.letGo(holder.Actor, g.Lease)
	for _, wait := range left {
		wait()
	}
	c.judgeReleases(waiters)
}

// woke is one release, and who was woken by it.
type woke struct {
	moments  []judge.Moment
	vain     int // how many of them did not get in
	requests int // of those
}

// judgeReleases tells the releases from the trace, and whom each woke from what the
// relays read: those whom the server told of something before the next release, the
// one that released aside. The next holder is among them, and is told before it can get
// in and release in its turn, so that nobody is counted too often.
func (c *company) judgeReleases(waiters []*waiter) {
	evidence := c.evidence()
	releases := turns(evidence.Events)
	herds, most := 0, 0
	var all woke
	story := judge.Story{Key: c.key, From: releases[0].grant.Asked}
	for i, turn := range releases[:len(releases)-1] { // nobody waits for the last one
		w := turn.wakes(waiters, releases[i+1])
		if len(w.moments) > 1 {
			herds++
		}
		most = max(most, len(w.moments))
		all.moments, all.vain, all.requests = append(all.moments, w.moments...), all.vain+w.vain, all.requests+w.requests
		story.To = releases[i+1].release.At
	}
	for _, w := range waiters {
		story.Who = append(story.Who, w.who)
	}
	wakes := len(all.moments)
	c.Found(finding.Herds, herds)
	c.Measure("woken by a release, on average", math.Round(10*float64(wakes)/herdOf)/10, "waiters")
	c.Measure("woken by a release, at most", float64(most), "waiters")
	c.Measure("requests of those who woke in vain", float64(all.requests), "requests")
	story.Moments = all.moments
	story.Summary = func(when func(int64) string) string {
		return fmt.Sprintf("At %s buyer 1 gives the lock back, to %d who wait. Each release wakes one of them, whose turn it is: %d wake-ups for %d turns.",
			when(releases[0].release.At), herdOf, wakes, herdOf)
	}
	if herds > 0 {
		story.Kind = finding.Herds
		story.Summary = func(when func(int64) string) string {
			return fmt.Sprintf("At %s buyer 1 gives the lock back, to %d who wait. A release wakes up to %d of them: until all have had their turn there are %d wake-ups, and %d of them are in vain.",
				when(releases[0].release.At), herdOf, most, wakes, all.vain)
		}
	}
	c.Witness(judge.Tell(evidence, story))
	c.Judge(evidence)
}

// turn is a grant and its release.
type turn struct{ grant, release trace.Event }

// turns are all of them, in the order of the grants.
func turns(events []trace.Event) []turn {
	var all []turn
	for _, e := range sorted(events) {
		switch e.Kind {
		case trace.Acquired:
			all = append(all, turn{grant: e})
		case trace.Releasing:
			for i := range all {
				if all[i].grant.Who == e.Who {
					all[i].release = e
				}
			}
		}
	}
	return all
}

// wakes is who woke at the end of a turn.
func (t turn) wakes(waiters []*waiter, next turn) woke {
	var w woke
	for _, one := range waiters {
		at, told := one.wokenIn(t.release.At, next.release.At)
		if one.who == t.release.Who || !told {
			continue
		}
		m := judge.Moment{Who: one.who, At: at, Kind: finding.Wakes, Label: "wakes"}
		if one.who != next.grant.Who {
			m.Label, m.Wrong = "in vain", true
			w.vain++
			w.requests += one.requestsIn(t.release.At, next.release.At)
		}
		w.moments = append(w.moments, m)
	}
	return w
}
