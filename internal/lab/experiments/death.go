package experiments

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/lock"
	"seckill/internal/testkit"
)

// deaths are the experiments about a holder whose process is killed.
func deaths() []comparison {
	zooKeeper, database := []testbed.Server{testbed.ZooKeeper}, []testbed.Server{testbed.Database}
	stuck, ends := kinds{finding.StuckKeys}, kinds{finding.StuckKeys, finding.Overlaps}
	return []comparison{
		{text: "holder-dies", scenario: holderKilled, needs: []testbed.Server{testbed.Redis}, quiet: true, cases: []setupCase{
			{id: "setnx-holder-killed", setup: dying("setnx"), breaks: stuck},
			{id: "naive-holder-killed", setup: dyingWithLease("naive"), holds: ends},
			{id: "watchdog-holder-killed", setup: dyingWithWatchdog("reentrant"), holds: ends},
			{id: "zk-holder-killed", setup: dyingWithWatchdog("zk-node"), needs: zooKeeper, holds: ends},
		}, parameters: []lab.Parameter{leaseOfTheDead(), workBeforeDeath()}},
		{text: "dies-between-commands", scenario: holderKilled, needs: []testbed.Server{testbed.Redis}, quiet: true, cases: []setupCase{
			{id: "setnx-expire-killed-between", setup: dyingBetweenCommands("setnx-expire"), breaks: stuck},
			{id: "set-nx-px-killed", setup: dyingBetweenCommands("naive"), holds: ends},
		}, parameters: []lab.Parameter{leaseOfTheDead()}},
		{text: "cut-between-commands", scenario: holderCutOff, needs: []testbed.Server{testbed.Redis}, quiet: true, cases: []setupCase{
			{id: "setnx-expire-cut-between", setup: cutBetweenCommands("setnx-expire"), breaks: stuck},
			{id: "set-nx-px-cut", setup: cutBetweenCommands("naive"), holds: ends},
		}, parameters: []lab.Parameter{leaseOfTheDead()}},
		{text: "row-of-dead-holder", scenario: holderKilled, needs: database, quiet: true, cases: []setupCase{
			{id: "mysql-row-holder-killed", setup: dyingWithWatchdog("mysql-row"), breaks: stuck},
			{id: "mysql-row-expiry-holder-killed", setup: dyingWithWatchdog("mysql-row-expiry"), holds: ends},
		}, parameters: []lab.Parameter{leaseOfTheDead(), workBeforeDeath()}},
	}
}

const (
	// deadLease is how long a dead holder's lock lasts, if it expires at all: the lease that
	// is asked for, the watchdog timeout or the session timeout.
	deadLease = 600 * time.Millisecond
	// deadWait is the wait limit of the second buyer.
	deadWait = 3 * deadLease
	// deadWork is how long the holder works before it is killed.
	deadWork = 150 * time.Millisecond
	// deadSlack is how much longer than deadLease the lock may be observed, on a busy machine
	// and with a server that checks its sessions only now and then.
	deadSlack = deadLease
)

func dying(mechanism string) lab.Setup { return lab.Setup{Policy: policyFor(mechanism, 0, deadWait)} }

func dyingWithLease(mechanism string) lab.Setup {
	return lab.Setup{Policy: policyFor(mechanism, deadLease, deadWait)}
}

func dyingWithWatchdog(mechanism string) lab.Setup {
	return lab.Setup{Policy: policyFor(mechanism, 0, deadWait), Watchdog: deadLease}
}

// leaseOfTheDead changes the lease, and with it when the lock must be free and how long the
// second buyer waits for that.
func leaseOfTheDead() lab.Parameter {
	return lab.DurationParameter("lease", i18n.F("how long the lock lasts, if it is not renewed"), 400*time.Millisecond, 4*time.Second,
		func(s lab.Setup) time.Duration { return cmp.Or(s.Policy.TTL(), s.Watchdog) },
		func(s *lab.Setup, d time.Duration) {
			setLease(s, d)
			s.Due, s.Policy.LockWaitMS = d, (deadWait / deadLease * d).Milliseconds()
		},
	).For(func(s lab.Setup) bool { return cmp.Or(s.Policy.TTL(), s.Watchdog) != 0 && s.Policy.Lock != "mysql-row" })
}

func workBeforeDeath() lab.Parameter {
	return work(i18n.F("how long the holder works before it is killed"), deadWork, 10*time.Millisecond, 2*time.Second)
}

// dyingBetweenCommands kills a holder after its first command, if the mechanism sends two.
func dyingBetweenCommands(mechanism string) lab.Setup {
	s := dyingWithLease(mechanism)
	s.Policy.Faults = []lock.Fault{{Point: lock.BetweenSetNXAndExpire, Effect: lock.EffectKill}}
	return s
}

// betweenCommands is how long a holder takes from its first command to the second.
const betweenCommands = 500 * time.Millisecond

// cutBetweenCommands makes a holder pause after its first command, if the mechanism sends two.
func cutBetweenCommands(mechanism string) lab.Setup {
	s := dyingWithLease(mechanism)
	s.Policy.Faults = []lock.Fault{pauseAt(lock.BetweenSetNXAndExpire, betweenCommands)}
	return s
}

// holderCutOff cuts buyer 1's process off from Redis once its key is there. It comes back when
// the process has given up. Then buyer 2 of another process waits for the lock.
func holderCutOff(t *lab.Trial, setup lab.Setup) {
	due := cmp.Or(setup.Due, deadLease)
	c := newClients(t, setup)
	way := testkit.NewProxy(t, t.Redis().Addr())
	process := c.start("process-1", func(config *lockclient.Config) { config.RedisAddrs = []string{way.Addr()} })
	other := c.start("process-2")
	c.warmUp(process)
	c.observe()

	req := c.request(firstBuyer)
	req.Owner, req.Faults = firstBuyer, setup.Policy.Faults
	var g lockclient.Grant
	var failed error
	asks := t.Go(func() { g, failed = process.Acquire(t.Context(), req) })
	c.observer.Await("buyer 1's key", func(s judge.Sample) bool { return s.Stored.Owner != "" })
	way.Cut()
	over := t.Fault(i18n.F("process-1 cannot reach Redis"))
	cut := time.Now().UnixNano()
	asks()
	if failed == nil {
		t.Sleep(deadWork)
		_ = process.Release(t.Context(), g.Lease) // the event log records its result
	} else if !errors.Is(failed, lock.ErrUnavailable) {
		c.Must(failed)
	}
	way.Reset()
	over()
	req = c.request(secondBuyer)
	req.Owner = secondBuyer // so that the key that is stored while it waits is not taken for its own
	next, err := other.Acquire(t.Context(), req)
	switch {
	case err == nil:
		t.Sleep(deadWork)
		c.release(other, next.Lease)
	case !errors.Is(err, lock.ErrNotAcquired):
		c.Must(err)
	}

	evidence := c.fullEvidence()
	evidence.Grace = due
	t.Judge(evidenceWhenDue(evidence, secondBuyer, cut+int64(due+betweenCommands+deadSlack)))
	if err == nil {
		t.Measure(i18n.F("the next one got in after the cut"), millis(time.Duration(next.At-cut)), i18n.F("ms"))
	} else {
		t.Measure(i18n.F("the next one waited in vain"), millis(next.Waited()), i18n.F("ms"))
	}
}

// holderKilled kills buyer 1's process while it holds the lock, or, if a fault strikes
// earlier, while it takes it. Then buyer 2 of another process waits for the lock.
func holderKilled(t *lab.Trial, setup lab.Setup) {
	due, working := cmp.Or(setup.Due, deadLease), cmp.Or(setup.Work, deadWork)
	c := newClients(t, setup)
	dying, other := c.start("process-1", c.useLockServers), c.start("process-2", c.useLockServers, longSession)
	c.observe()

	const first, next = "buyer 1", "buyer 2"
	req := c.request(first)
	req.Owner = first // names the owner of the key, which its caller never learns
	req.Faults = setup.Policy.Faults
	switch _, err := c.acquire(dying, req); {
	case err == nil:
		t.Sleep(working)
		dying.Kill()
	case !errors.Is(err, lockclient.ErrDead):
		c.Must(err)
	}
	req = c.request(next)
	req.Owner = next // so that the key that is stored while it waits is not taken for its own
	g, err := c.acquire(other, req)
	switch {
	case err == nil:
		t.Sleep(deadWork)
		_ = other.Release(t.Context(), g.Lease) // the event log records its result
	case !errors.Is(err, lock.ErrNotAcquired):
		c.Must(err)
	}

	evidence := c.fullEvidence()
	evidence.Grace = due // the hypothesis says so, whatever lease the setup has
	death := evidence.Deaths[0].At
	t.Judge(evidenceWhenDue(evidence, next, death+int64(due+deadSlack)))
	if err == nil {
		t.Measure(i18n.F("the next one got in after the death"), millis(time.Duration(g.At-death)), i18n.F("ms"))
	} else {
		t.Measure(i18n.F("the next one waited in vain"), millis(g.Waited()), i18n.F("ms"))
	}
}

// evidenceWhenDue is for a key that must be free by a given time. If the key was stuck then
// and is free at the end, it returns what was known at that time; otherwise all evidence.
// From the time at which next gets the lock, the key is its own.
func evidenceWhenDue(evidence judge.Evidence, next string, by int64) judge.Evidence {
	then := evidence.Until(min(by, evidence.End))
	if slices.ContainsFunc(then.Events, acquiredBy(next)) {
		return evidence
	}
	isStuck := func(ev judge.Evidence) bool { return judge.Judge(ev).Anomalies[finding.StuckKeys] > 0 }
	if isStuck(then) && !isStuck(evidence) {
		return then
	}
	return evidence
}
