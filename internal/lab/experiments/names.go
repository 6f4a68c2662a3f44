package experiments

import (
	"cmp"
	"errors"
	"slices"
	"strings"
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
	// namedLease outlasts the work.
	namedLease = 5 * time.Second
	namedWork  = 300 * time.Millisecond
	// namedPause is from one buyer to the next.
	namedPause = 50 * time.Millisecond
)

// names are the experiments about the name of a lock's key.
func names() []comparison {
	tries := func(wait time.Duration, of flawed.Name) lab.Setup {
		return lab.Setup{Policy: policyFor("naive", namedLease, wait), Program: of}
	}
	needs := []testbed.Server{testbed.Redis}
	working := work(i18n.F("how long the first one works"), namedWork, 100*time.Millisecond, 3*time.Second)
	return []comparison{
		{text: "two-names", scenario: twoPrograms, needs: needs, quiet: true, cases: []setupCase{
			{id: "two-names", setup: tries(patience, flawed.TwoNames), breaks: kinds{finding.Overlaps}},
			{id: "one-name", setup: tries(patience, ""), holds: kinds{finding.Overlaps}},
		}, parameters: []lab.Parameter{locks("naive", "uuid", "lua", "reentrant", "fair"), working}},
		{text: "key-of-a-user", scenario: twoVouchers, needs: needs, quiet: true, cases: []setupCase{
			{id: "key-without-voucher", setup: tries(0, flawed.KeyWithoutVoucher), breaks: kinds{finding.TurnedAway}},
			{id: "key-with-voucher", setup: tries(0, ""), holds: kinds{finding.TurnedAway}},
		}, parameters: []lab.Parameter{locks("naive", "uuid", "lua", "reentrant", "fair"), working}},
	}
}

// underKey is a request for another key.
func underKey(req lockclient.Acquire, key string) lockclient.Acquire {
	req.Key = key
	return req
}

// observeKeys samples several keys, each as a store of its own.
func (c *clients) observeKeys(keys ...string) (samples func() []judge.Sample) {
	observers := make([]*testbed.Observer, len(keys))
	for i, key := range keys {
		observers[i] = c.Observe(c.Inspector(c.setup.Policy.Lock), key)
	}
	return func() []judge.Sample {
		var all []judge.Sample
		for i, o := range observers {
			for _, s := range o.Samples() {
				s.Key, s.Server = c.key, "key "+keys[i]
				all = append(all, s)
			}
		}
		return all
	}
}

// asOneLock is the evidence about several keys that the programs take for one lock.
func (c *clients) asOneLock(samples []judge.Sample, keys ...string) judge.Evidence {
	ev := judge.Evidence{
		LockStore: testbed.LockStore(c.setup.Policy.Lock), Samples: samples, Apart: true, End: time.Now().UnixNano(),
	}
	for _, client := range c.all {
		for _, e := range client.Events() {
			if slices.Contains(keys, e.Key) {
				e.Key = c.key
				ev.Events = append(ev.Events, e)
			}
		}
	}
	return ev
}

// twoPrograms makes two programs guard the same stock. The second one starts while the first one
// works, and waits.
func twoPrograms(t *lab.Trial, setup lab.Setup) {
	c := newClients(t, setup)
	one, two := c.key, c.key
	if setup.Program == flawed.TwoNames {
		one += ":168"
	}
	keys := []string{one}
	if two != one {
		keys = append(keys, two)
	}
	first, second := c.start("process-1"), c.start("process-2")
	c.warmUp(second)
	samples := c.observeKeys(keys...)

	g := c.take(first, underKey(c.request(firstBuyer), one))
	waits := c.startTaking(second, underKey(c.request(secondBuyer), two))
	t.Until(secondBuyer+" to ask", func() bool { return slices.ContainsFunc(second.Events(), requestedBy(secondBuyer)) })
	t.Sleep(cmp.Or(setup.Work, namedWork))
	c.release(first, g.Lease)
	done := time.Now().UnixNano()
	next := waits()
	t.Sleep(namedPause)
	c.release(second, next.Lease)

	evidence := c.asOneLock(samples(), keys...)
	t.Measure(i18n.F("the second one waited"), millis(next.Waited()), i18n.F("ms"))
	story := witness.Story{
		Key: c.key, Who: []string{firstBuyer, secondBuyer}, From: g.Asked, To: max(done, next.At),
		Summary: i18n.F("Both programs lock %s. Buyer 1 has it from %s on; buyer 2 asks at %s, waits, and has it at %s.",
			one, witness.At(g.At), witness.At(next.Asked), witness.At(next.At)),
	}
	if n := judge.Judge(evidence).Anomalies[finding.Overlaps]; n > 0 {
		story.Kind = finding.Overlaps
		story.Summary = i18n.F("Buyer 1 locks %s at %s. Buyer 2 locks %s for the same stock, and has it at %s, while buyer 1 works: neither program ever asks for the other's key.",
			one, witness.At(g.At), two, witness.At(next.At))
	}
	t.Witness(witness.Tell(evidence, story))
	t.Judge(evidence)
}

// twoVouchers makes one user buy two vouchers: the second one while the first order is being
// placed.
func twoVouchers(t *lab.Trial, setup lab.Setup) {
	c := newClients(t, setup)
	c.key = strings.Replace(c.key, "stock", "order", 1)
	one, two := c.key+":1:42", c.key+":2:42"
	if setup.Program == flawed.KeyWithoutVoucher {
		one, two = c.key+":42", c.key+":42"
	}
	keys := []string{one}
	if two != one {
		keys = append(keys, two)
	}
	first, second := c.start("process-1"), c.start("process-2")
	c.warmUp(second)
	samples := c.observeKeys(keys...)

	const book, film = "user 42, voucher 1", "user 42, voucher 2"
	g := c.take(first, underKey(c.request(book), one))
	t.Sleep(cmp.Or(setup.Work, namedWork) / 2)
	other, err := second.Acquire(t.Context(), underKey(c.request(film), two))
	refused := errors.Is(err, lock.ErrNotAcquired)
	if !refused {
		c.Must(err)
	}
	t.Sleep(cmp.Or(setup.Work, namedWork) / 2)
	c.release(first, g.Lease)
	if !refused {
		c.release(second, other.Lease)
	}

	evidence := c.asOneLock(samples(), keys...)
	story := witness.Story{
		Key: c.key, Who: []string{book, film}, From: g.Asked, To: other.At,
		Summary: i18n.F("The user's order for voucher 1 holds %s from %s on. His order for voucher 2 takes %s, at %s: the two do not meet.",
			one, witness.At(g.At), two, witness.At(other.At)),
	}
	t.Found(finding.TurnedAway, 0)
	if refused {
		t.Found(finding.TurnedAway, 1)
		story.Kind = finding.TurnedAway
		story.Wrong = []witness.Wrong{{Who: film, Mark: finding.Refuses}}
		story.Summary = i18n.F("The user's order for voucher 1 holds %s from %s on. His order for voucher 2 asks for the same key, and is refused at %s: he is told that he has ordered already.",
			one, witness.At(g.At), witness.At(other.At))
	}
	t.Witness(witness.Tell(evidence, story))
	if refused {
		t.Judge(evidence)
	}
}
