package experiments

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/lab/witness"
	"seckill/internal/lock"
)

const (
	// refusedLease outlasts everything.
	refusedLease = 10 * time.Second
	// refusedStep is from one buyer to the next, refusedBuyers how many come.
	refusedStep   = 60 * time.Millisecond
	refusedBuyers = 6
)

// refusals are the experiments about what a caller does that was refused.
func refusals() []comparison {
	tries := func(mechanism string, of flawed.Name) lab.Setup {
		return lab.Setup{Policy: policyFor(mechanism, refusedLease, 0), Program: of}
	}
	return []comparison{{
		text: "inside-try", scenario: refusedBuyersGo, needs: []testbed.Server{testbed.Redis}, quiet: true, cases: []setupCase{
			{id: "acquire-inside-try", setup: tries("naive", flawed.AcquireInsideTry), breaks: kinds{finding.Overlaps}},
			{id: "acquire-before-try", setup: tries("naive", ""), holds: kinds{finding.Overlaps}},
			{id: "inside-try-compares", setup: tries("lua", flawed.AcquireInsideTry), holds: kinds{finding.Overlaps}},
		}, parameters: []lab.Parameter{buyers(refusedBuyers, 3, 16)},
	}}
}

// refusedBuyersGo lets the first buyer work while others come, one after the other. Each of them
// tries once; those who get in work, too, until all have come.
func refusedBuyersGo(t *lab.Trial, setup lab.Setup) {
	c := newClients(t, setup)
	processes := []*lockclient.Client{c.start("process-1"), c.start("process-2")}
	c.observe()
	type buyer struct {
		who string
		at  *lockclient.Client
		lockclient.Grant
		in bool
	}
	all := make([]buyer, cmp.Or(setup.Buyers, refusedBuyers))
	inside := 0
	for i := range all {
		b := &all[i]
		b.who, b.at = fmt.Sprintf("buyer %d", i+1), processes[i%len(processes)]
		g, err := b.at.Acquire(t.Context(), c.request(b.who))
		switch {
		case err == nil:
			b.in = true
			inside++
		case !errors.Is(err, lock.ErrNotAcquired):
			c.Must(err)
		}
		b.Grant = g
		t.Sleep(refusedStep)
	}
	if !all[0].in {
		t.Fatalf("the first buyer was refused")
	}
	for _, b := range all {
		if b.in {
			c.release(b.at, b.Lease)
		}
	}

	evidence := c.evidence()
	t.Measure(i18n.F("inside at the same time"), float64(inside), i18n.F("of %d", len(all)))
	one, two, three := all[0], all[1], all[2]
	story := witness.Story{
		Key: c.key, Who: []string{one.who, two.who, three.who}, From: one.Asked, To: three.At,
		Summary: i18n.F("Buyer 1 gets the lock at %s. Buyer 2 is refused at %s, and buyer 3 at %s: buyer 1's lock is still there.",
			witness.At(one.At), witness.At(two.At), witness.At(three.At)),
	}
	if judge.Judge(evidence).Anomalies[finding.Overlaps] > 0 {
		story.Kind = finding.Overlaps
		story.Moments = []witness.Moment{{Who: two.who, At: two.At, Kind: finding.Deletes, Label: i18n.F("deletes buyer 1's lock"), Wrong: true}}
		story.Summary = i18n.F("Buyer 1 gets the lock at %s. Buyer 2 is refused at %s, and its finally block deletes buyer 1's lock. Buyer 3 comes, finds no lock, and is let in at %s beside buyer 1.",
			witness.At(one.At), witness.At(two.At), witness.At(three.At))
	}
	t.Witness(witness.Tell(evidence, story))
	t.Judge(evidence)
}
