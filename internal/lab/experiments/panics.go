package experiments

import (
	"cmp"
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
	"seckill/internal/lock"
)

// aliveWatchdog is the lease that the watchdog of a living process renews. The next request
// waits for aliveWait, more than two such leases.
const (
	aliveWatchdog = 800 * time.Millisecond
	aliveWait     = 2 * time.Second
	panickingWork = 100 * time.Millisecond
	// renewalStep is the least by which a renewal moves the expiry of a key. A smaller
	// difference is measurement error.
	renewalStep = 50 * time.Millisecond
	// stillThere is how long after the panic a key is observed that is renewed forever: no
	// lease lasts that long without renewal. almostAtOnce is how long a key may be observed
	// that was released before anybody learned of the panic.
	stillThere   = 2 * aliveWatchdog
	almostAtOnce = 100 * time.Millisecond
)

// panics are the experiments about work that panics.
func panics() []comparison {
	setup := lab.Setup{Policy: policyFor("reentrant", 0, aliveWait), Watchdog: aliveWatchdog}
	deferred := setup
	deferred.Deferred = true
	return []comparison{{
		text: "panics", needs: []testbed.Server{testbed.Redis}, quiet: true, cases: []setupCase{
			{id: "panic-skips-release", setup: setup, scenario: panicAtWork(stillThere), breaks: kinds{finding.StuckKeys}},
			{
				id: "panic-deferred-release", setup: deferred, scenario: panicAtWork(almostAtOnce),
				holds: kinds{finding.StuckKeys, finding.Overlaps},
			},
		}, parameters: []lab.Parameter{locks("setnx", "naive", "lua", "reentrant", "fair"), work(i18n.F("from the acquisition to the panic"), panickingWork, 10*time.Millisecond, 2*time.Second)},
	}}
}

// panicAtWork makes a request panic while it holds the lock; a second request comes after it.
// A key that is there for longer than the grace period is stuck.
func panicAtWork(grace time.Duration) lab.Scenario {
	return func(t *lab.Trial, setup lab.Setup) { panicking(t, setup, grace) }
}

func panicking(t *lab.Trial, setup lab.Setup, grace time.Duration) {
	working := cmp.Or(setup.Work, panickingWork)
	c := newClients(t, setup)
	process, other := c.start("process-1"), c.start("process-2")
	c.observe()
	const first, next = "request 1", "request 2"
	work, err := process.Panic(t.Context(), lockclient.Panic{Acquire: c.request(first), Deferred: setup.Deferred, Hold: working})
	c.Must(err)
	if work.Panic == "" {
		t.Fatalf("the work did not panic")
	}
	// The request has been answered. Nobody holds its lock any more.
	gone := eventlog.Event{
		At: time.Now().UnixNano(), Process: process.Name(), Who: first, Kind: eventlog.Abandoned,
		Mechanism: setup.Policy.Lock, Key: c.key, Owner: string(work.Owner),
	}
	req := c.request(next)
	req.Owner = next // so that the key that is stored while it waits is not taken for its own
	g, err := other.Acquire(t.Context(), req)
	switch {
	case err == nil:
		t.Sleep(panickingWork)
		c.release(other, g.Lease)
	case !errors.Is(err, lock.ErrNotAcquired):
		c.Must(err)
	}

	evidence := c.evidence()
	evidence.Events = append(evidence.Events, gone)
	evidence.Grace = grace
	t.Measure(i18n.F("the next request waited"), millis(g.Waited()), i18n.F("ms"))
	t.Measure(i18n.F("renewed for nobody"), float64(renewals(evidence.Samples, gone)), i18n.F("times"))
	if err == nil {
		t.Witness(witness.Tell(evidence, witness.Story{
			Key: c.key, Who: []string{first, next}, From: work.Asked, To: g.At,
			Summary: i18n.F("Request 1 gets the lock at %s and panics %d ms later; the release on the panic's way up gives it back, and request 2 gets it at %s.",
				witness.At(work.At), working.Milliseconds(), witness.At(g.At)),
		}))
	}
	t.Judge(evidenceWhenDue(evidence, next, gone.At+int64(grace+almostAtOnce)))
}

// renewals counts how often the store extended a holder's lock after the holder was gone.
func renewals(samples []judge.Sample, gone eventlog.Event) int {
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
