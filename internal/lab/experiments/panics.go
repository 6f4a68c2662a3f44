package experiments

import (
	"errors"
	"fmt"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/actor"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/stage"
	"seckill/internal/lock"
	"seckill/internal/trace"
)

// aliveWatchdog is the lease that the watchdog of a process that lives renews. Whoever
// wants the lock then waits for aliveWait, more than two such leases long.
const (
	aliveWatchdog = 800 * time.Millisecond
	aliveWait     = 2 * time.Second
	panickingWork = 100 * time.Millisecond
	// renewalStep is by how much later a key ends that was renewed: less is the
	// inaccuracy of looking.
	renewalStep = 50 * time.Millisecond
	// stillThere is how long after the panic a key is looked for that was to be renewed
	// for ever: no lease lasts so long by itself. almostAtOnce is how long a key may be there
	// that was to be free before anybody heard of the panic.
	stillThere   = 2 * aliveWatchdog
	almostAtOnce = 100 * time.Millisecond
)

// panics are the experiments about work that does not come to its end.
func panics() lab.Set {
	const group = "Work that panics"
	return lab.Set{
		{
			ID: "panic-skips-release", Group: group, Title: "A panic skips the release, and the watchdog renews for ever",
			Sources: []lab.Source{
				{Document: "003", Section: "Where lock and unlock belong"},
				{Document: "001", Section: "The watchdog"},
			},
			Hypothesis: "When the release stands after the work and not in a deferred call, a panic that is caught further up leaves the lock to nobody, and the watchdog keeps it for as long as the process lives.",
			Arrangement: "A request takes a lock that is renewed (lease 800 ms), and its work panics. The panic is caught above it, where a web framework does. " +
				"The next request waits for 2 s.",
			Why: "The framework did what it should: one request failed, the process lives on and serves others. But the line that releases was jumped over, and the lock's " +
				"watchdog belongs to the process, not to the request: as far as it can tell the holder is alive, so it renews the lease every third of it. A " +
				"fixed lease would at least have run out. Here nothing ends it but a restart, and then, since the watchdog dies too, after one lease. " +
				"The better a lock survives long work, the worse it bears a release that is forgotten.",
			Seen:    "after one failed request all later ones for that key are refused until the process is restarted",
			Cure:    "Put the release in a deferred call (try … finally), straight after the acquisition (panic-deferred-release).",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.StuckKeys},
			Partner: "panic-deferred-release",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("reentrant", 0, aliveWait), Watchdog: aliveWatchdog},
			Scene:   panicAtWork(stillThere),
		},
		{
			ID: "panic-deferred-release", Group: group, Title: "A deferred release is not skipped",
			Sources: []lab.Source{
				{Document: "003", Section: "Where lock and unlock belong"},
				{Document: "002", Section: "Where re-entry is used"},
			},
			Hypothesis:  "A release in a deferred call gives the lock back on the panic's way up, and the next request gets in at once.",
			Arrangement: "The same lock, work, panic and next request; the release is deferred.",
			Why: "A deferred call runs however the function is left: by its end, by an error or by a panic on its way up. The lock is therefore free before whoever catches the panic " +
				"has even seen it. The place matters: the deferred release stands right after the acquisition that succeeded, so that there is nothing in between that could panic " +
				"and nothing to release where there was no lock. It also must not depend on the request's context, which may have ended by then: a release on a context that is " +
				"over would be skipped as surely as one that was never reached.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.StuckKeys, finding.Overlaps},
			Partner: "panic-skips-release",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("reentrant", 0, aliveWait), Watchdog: aliveWatchdog, Deferred: true},
			Scene:   panicAtWork(almostAtOnce),
			K6: []string{
				"LOCK=reentrant", "SCOPE=voucher", "STOCK_MODE=unguarded", "LOCK_WAIT_MS=30000", "USERS=400",
				`FAULTS=[{"point":"critical-section","effect":"panic","probability":0.1}]`,
			},
		},
	}
}

// panicAtWork has a request panic while it holds the lock, and another one come after
// it. A key that is there for longer than the grace is stuck.
func panicAtWork(grace time.Duration) lab.Scene {
	return func(p *lab.Play, with lab.Setup) { panicking(p, with, grace) }
}

func panicking(p *lab.Play, with lab.Setup, grace time.Duration) {
	c := gather(p, with)
	shop, other := c.hire("shop-1"), c.hire("shop-2")
	c.observe()
	const first, next = "request 1", "request 2"
	work, err := shop.Panic(p.Context(), actor.Panic{Acquire: c.ask(first), Deferred: with.Deferred, Hold: panickingWork})
	c.must(err)
	if work.Panic == "" {
		p.Fatalf("the work did not panic")
	}
	// The request has had its answer. Whatever it held, nobody holds it any more.
	gone := trace.Event{
		At: time.Now().UnixNano(), Process: shop.Name(), Who: first, Kind: trace.Abandoned,
		Mechanism: with.Policy.Lock, Key: c.key, Owner: string(work.Owner),
	}
	asks := c.ask(next)
	asks.Owner = next // so that what is there while it waits is not taken for its own
	g, err := other.Acquire(p.Context(), asks)
	switch {
	case err == nil:
		p.Pause(panickingWork)
		c.letGo(other, g.Lease)
	case !errors.Is(err, lock.ErrNotAcquired):
		c.must(err)
	}

	evidence := c.evidence()
	evidence.Events = append(evidence.Events, gone)
	evidence.Grace = grace
	p.Measure("the next request waited", millis(g.Waited()), "ms")
	p.Measure("renewed for nobody", float64(renewals(evidence.Samples, gone)), "times")
	if err == nil {
		p.Witness(judge.Tell(evidence, judge.Story{
			Key: c.key, Who: []string{first, next}, From: work.Asked, To: g.At,
			Summary: func(when func(int64) string) string {
				return fmt.Sprintf("Request 1 gets the lock at %s and panics %d ms later; the release on the panic's way up gives it back, and request 2 gets it at %s.",
					when(work.At), panickingWork.Milliseconds(), when(g.At))
			},
		}))
	}
	p.Judge(overdue(evidence, gone.At+int64(grace+almostAtOnce)))
}

// renewals counts how often the store was seen to give a holder's lock more time after
// the holder was gone.
func renewals(samples []judge.Sample, gone trace.Event) int {
	n, ends := 0, int64(0)
	for _, s := range samples {
		if s.Stored.Owner != gone.Owner || s.Stored.TTLMS == nil {
			continue
		}
		end := s.At + int64(*s.Stored.TTLMS*float64(time.Millisecond))
		if s.At > gone.At && ends != 0 && end > ends+int64(renewalStep) {
			n++
		}
		ends = end
	}
	return n
}
