package experiments

import (
	"errors"
	"slices"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/lab/witness"
	"seckill/internal/lock"
)

// The inner call waits for innerWait. If it gets in, it works for nestedWork.
const (
	innerLease = 5 * time.Second
	innerWait  = 600 * time.Millisecond
	nestedWork = 150 * time.Millisecond
)

// reentry are the experiments about a holder that acquires the lock again.
func reentry() []comparison {
	setup := func(mechanism string) lab.Setup {
		return lab.Setup{Policy: policyFor(mechanism, innerLease, innerWait)}
	}
	return []comparison{{
		text: "reentry", scenario: nestedCall, needs: []testbed.Server{testbed.Redis}, quiet: true, cases: []setupCase{
			{id: "nested-without-reentry", setup: setup("lua"), breaks: kinds{finding.Deadlocks}},
			{id: "nested-reentrant", setup: setup("reentrant"), holds: kinds{finding.Deadlocks, finding.Overlaps}},
		}, parameters: []lab.Parameter{locks("naive", "uuid", "lua", "reentrant", "fair"), waitLimit(50*time.Millisecond, 3*time.Second)},
	}, innerLeases()}
}

// nestedCall makes a method that holds the lock call one that takes it, while a second process
// wants it, too.
func nestedCall(t *lab.Trial, setup lab.Setup) {
	c := newClients(t, setup)
	process, other := c.start("process-1"), c.start("process-2")
	c.observe()
	const outer, inner, next = "outer call", "inner call", "next order"
	both := c.request(outer)
	both.Owner = outer
	held := c.take(process, both)
	var again lockclient.Grant
	calls := t.Go(func() {
		var err error
		if again, err = process.Acquire(t.Context(), both); err == nil {
			t.Sleep(nestedWork)
			c.release(process, again.Lease)
		} else if !errors.Is(err, lock.ErrNotAcquired) {
			c.Must(err)
		}
		c.release(process, held.Lease)
	})
	req := c.request(next)
	req.Wait = 10 * max(innerWait, setup.Policy.Wait())
	g := c.take(other, req)
	calls()
	t.Sleep(nestedWork)
	c.release(other, g.Lease)

	evidence := c.evidence()
	waits := selfWaits(evidence.Events)
	t.Found(finding.Deadlocks, len(waits))
	t.Measure(i18n.F("the inner call waited"), millis(again.Waited()), i18n.F("ms"))
	t.Measure(i18n.F("the next order waited"), millis(g.Waited()), i18n.F("ms"))
	story := witness.Story{
		Key: c.key, Who: []string{outer, inner, next}, From: held.Asked, To: g.At,
		Summary: i18n.F("The outer call gets the lock at %s, and the inner one gets in beside it at once, as the same owner; both give it back, and the next order has it at %s.",
			witness.At(held.At), witness.At(g.At)),
	}
	if len(waits) > 0 {
		story.Kind = finding.Deadlocks
		story.Wrong = []witness.Wrong{{Who: inner, Span: finding.Waits, Mark: finding.Refuses}}
		story.Summary = i18n.F("The outer call gets the lock at %s; from %s to %s the inner one waits for it, and so for its own caller, which waits for the inner one; only then, at %s, the next order gets in.",
			witness.At(held.At), witness.At(again.Asked), witness.At(again.At), witness.At(g.At))
	}
	shown := evidence
	shown.Events = separateInner(evidence.Events, held, again, inner)
	t.Witness(witness.Tell(shown, story))
	t.Judge(evidence)
}

// separateInner gives the inner of two nested calls a name and an owner of its own, so that it
// gets its own lane in a picture: in the event log both calls have the same owner.
func separateInner(events []eventlog.Event, held, again lockclient.Grant, inner string) []eventlog.Event {
	events = sorted(events)
	for i := range events {
		e := &events[i]
		if e.Owner != string(held.Owner) || e.At < again.Asked {
			continue
		}
		e.Who, e.Owner = inner, e.Owner+", again"
		if e.Kind == eventlog.Released || e.Kind == eventlog.Refused {
			break
		}
	}
	return events
}

// selfWaits returns the acquisitions that failed while their own owner held the key all the
// time.
func selfWaits(events []eventlog.Event) []eventlog.Event {
	var found []eventlog.Event
	for _, refused := range events {
		if refused.Kind != eventlog.Refused || refused.Owner == "" {
			continue
		}
		same := func(kind eventlog.Kind, when func(at int64) bool) bool {
			return slices.ContainsFunc(events, func(e eventlog.Event) bool {
				return e.Kind == kind && e.Key == refused.Key && e.Owner == refused.Owner && when(e.At)
			})
		}
		held := same(eventlog.Acquired, func(at int64) bool { return at <= refused.Began })
		let := same(eventlog.Releasing, func(at int64) bool { return at <= refused.At })
		if held && !let {
			found = append(found, refused)
		}
	}
	return found
}
