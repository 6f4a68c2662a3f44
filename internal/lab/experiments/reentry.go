package experiments

import (
	"fmt"
	"slices"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/actor"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/stage"
	"seckill/internal/trace"
)

// The inner call waits for innerWait, and where it gets in it works for nestedWork.
const (
	innerLease = 5 * time.Second
	innerWait  = 600 * time.Millisecond
	nestedWork = 150 * time.Millisecond
)

// reentry are the experiments about a holder that asks for what it has.
func reentry() lab.Set {
	const group = "Asking for what one has"
	return lab.Set{
		{
			ID: "nested-without-reentry", Group: group, Title: "A method waits for the lock that its caller holds",
			Sources: []lab.Source{
				{Document: "002", Section: "Where re-entry is used"},
				{Document: "002", Section: "Problems of an ordinary Redis lock"},
				{Document: "003", Section: "Implementing a reentrant lock"},
			},
			Hypothesis: "A method that takes a lock, called by one that holds it, waits for its own caller until the wait limit or the lease ends it.",
			Arrangement: "In one process a method takes the lock and calls another one, which takes the same lock, with 600 ms to wait. " +
				"A second process wants the lock meanwhile.",
			Why: "The value under the key says that the lock is taken, and the mechanism asks for no more: to SET NX its own holder is a stranger like any other. The inner method waits for the outer " +
				"one to release, the outer one waits for the inner one to return. Nothing in the program is slow and nothing is broken, and yet it stands still until the " +
				"wait limit fails the call. With no limit it would stand until the lease runs out, and then go on with a lock that its outer half has lost. All others stand " +
				"behind it. A mechanism that knows its owner lets the same owner in again, and counts how often.",
			Seen:    "a request waits for itself until its wait limit, and fails; everybody else waits with it",
			Cure:    "A lock that knows its owner and counts: the same owner gets in again, and the last release frees the key (nested-reentrant).",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.Deadlocks},
			Partner: "nested-reentrant",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("lua", innerLease, innerWait)},
			Scene:   nestedCall,
		},
		{
			ID: "nested-reentrant", Group: group, Title: "The same owner gets in again",
			Sources: []lab.Source{
				{Document: "000", Section: "How the reentrant lock works"},
				{Document: "002", Section: "How the reentrant lock works"},
				{Document: "003", Section: "A reentrant lock in a Redis hash"},
			},
			Hypothesis:  "With a lock that knows its owner the inner call gets in at once, and the lock is free after the second of the two releases, not after the first.",
			Arrangement: "The same two methods and the same second process.",
			Why: "The owner travels with the call (here in its context, in Java in the thread's identity), and the key in Redis says not only that it is taken but by whom. The inner acquisition finds its own owner there " +
				"and adds a lease to it; a script does both in one step. The inner release takes that lease away again and the key stays, the outer release frees it. " +
				"Re-entry is for code that cannot know whether its caller has locked already. It makes no two requests one: each has an owner of its own, and they still exclude each other.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.Deadlocks, finding.Overlaps},
			Partner: "nested-without-reentry",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("reentrant", innerLease, innerWait)},
			Scene:   nestedCall,
		},
	}
}

// nestedCall has a method that holds the lock call one that takes it, while a second
// process wants it, too.
func nestedCall(p *lab.Play, with lab.Setup) {
	c := gather(p, with)
	shop, other := c.hire("shop-1"), c.hire("shop-2")
	c.observe()
	const outer, inner, next = "outer call", "inner call", "next order"
	var nested actor.Nested
	calls := p.Go(func() {
		n, err := shop.Nest(p.Context(), actor.Nest{
			Acquire: c.ask(outer), InnerWait: with.Policy.Wait(), InnerTTL: with.Policy.TTL(), Hold: nestedWork,
		})
		c.must(err)
		nested = n
	})
	c.await("the outer call to hold the lock", acquiredBy(outer))
	asks := c.ask(next)
	asks.Wait = 10 * innerWait
	g, err := other.Acquire(p.Context(), asks)
	c.must(err)
	calls()
	p.Pause(nestedWork)
	c.letGo(other, g.Lease)

	evidence := c.evidence()
	waits := ownWaits(evidence.Events)
	p.Found(finding.Deadlocks, len(waits))
	p.Measure("the inner call waited", millis(nested.Inner.Waited()), "ms")
	p.Measure("the next order waited", millis(g.Waited()), "ms")
	story := judge.Story{
		Key: c.key, Who: []string{outer, inner, next}, From: nested.Outer.Asked, To: g.At,
		Summary: func(when func(int64) string) string {
			return fmt.Sprintf("The outer call gets the lock at %s, and the inner one gets in beside it at once, as the same owner; both give it back, and the next order has it at %s.",
				when(nested.Outer.At), when(g.At))
		},
	}
	if len(waits) > 0 {
		story.Kind = finding.Deadlocks
		story.Wrong = []judge.Wrong{{Who: inner, Span: finding.Waits, Mark: finding.Refuses}}
		story.Summary = func(when func(int64) string) string {
			return fmt.Sprintf("The outer call gets the lock at %s; from %s to %s the inner one waits for it, and so for its own caller, which waits for the inner one; only then, at %s, the next order gets in.",
				when(nested.Outer.At), when(nested.Inner.Asked), when(nested.Inner.At), when(g.At))
		}
	}
	shown := evidence
	shown.Events = apart(evidence.Events, nested, inner)
	p.Witness(judge.Tell(shown, story))
	p.Judge(evidence)
}

// apart gives the inner of two nested calls a name and an owner of its own, so that it
// has a lane of its own in a picture: in the trace both calls are the same owner's.
func apart(events []trace.Event, nested actor.Nested, inner string) []trace.Event {
	events = sorted(events)
	for i := range events {
		e := &events[i]
		if e.Owner != string(nested.Outer.Owner) || e.At < nested.Inner.Asked {
			continue
		}
		e.Who, e.Owner = inner, e.Owner+", again"
		if e.Kind == trace.Released || e.Kind == trace.Refused {
			break
		}
	}
	return events
}

// ownWaits are the acquisitions that ended in vain while their own owner held the key
// all the time.
func ownWaits(events []trace.Event) []trace.Event {
	var found []trace.Event
	for _, refused := range events {
		if refused.Kind != trace.Refused || refused.Owner == "" {
			continue
		}
		same := func(kind trace.Kind, when func(at int64) bool) bool {
			return slices.ContainsFunc(events, func(e trace.Event) bool {
				return e.Kind == kind && e.Key == refused.Key && e.Owner == refused.Owner && when(e.At)
			})
		}
		held := same(trace.Acquired, func(at int64) bool { return at <= refused.Asked })
		let := same(trace.Releasing, func(at int64) bool { return at <= refused.At })
		if held && !let {
			found = append(found, refused)
		}
	}
	return found
}
