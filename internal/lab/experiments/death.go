package experiments

import (
	"errors"
	"slices"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/actor"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/stage"
	"seckill/internal/lock"
)

// deaths are the experiments about a holder whose process is killed.
func deaths() lab.Set {
	return slices.Concat(holderDies(), lifeRenews(), diesBetweenCommands(), rowOfTheDead())
}

const (
	// deadLease is what a dead holder's lock lasts, where it has an end: the lease
	// that is asked for, the watchdog's, or the session's.
	deadLease = 600 * time.Millisecond
	// deadWait is how long the others wait for it.
	deadWait = 3 * deadLease
	// deadWork is how long the holder works before it is killed.
	deadWork = 150 * time.Millisecond
	// deadSlack is how much longer than that its lock may be seen, on a machine that
	// has other things to do and by a server that looks at its sessions now and then.
	deadSlack = deadLease
)

// deathGroup has the ways in which a dead holder's lock ends.
const deathGroup = "A holder that dies"

func holderDies() lab.Set {
	return lab.Set{
		{
			ID: "setnx-holder-killed", Group: deathGroup, Title: "SETNX: a dead holder keeps the lock for ever",
			Sources: []lab.Source{
				{Document: "001", Section: "1. The first way: the command SETNX"},
				{Document: "003", Section: "Getting started with distributed locks"},
			},
			Hypothesis:  "When the process that holds a SETNX lock is killed, nobody gets the lock any more.",
			Arrangement: "Buyer 1's process takes the lock and is killed (SIGKILL) 150 ms later, in the middle of its work. Buyer 2 of another process waits for 1.8 s.",
			Why: "The key is deleted by its holder or by nobody. SIGKILL leaves no time for a deferred call, nor does a machine that loses power, nor a container that is out of memory; " +
				"so the line that deletes is never reached. Redis knows nothing of processes: it keeps a key that nobody deletes and that has no end. " +
				"All who come later find it taken, by a holder that is not there, and retrying does not help them. Somebody has to look for the key and delete it by hand, " +
				"hoping that the holder is really dead. A lock needs an end that comes without its holder.",
			Seen:    "after one death every buyer is told busy, and the stock is left for ever",
			Cure:    "Give the key an end when it is made: SET NX PX (naive-holder-killed), a lease that is renewed (watchdog-holder-killed) or a session (zk-holder-killed).",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.StuckKeys},
			Partner: "naive-holder-killed",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("setnx", 0, deadWait)},
			Scene:   holderKilled,
			K6: []string{
				"LOCK=setnx", "SCOPE=voucher", "STOCK_MODE=unguarded", "LOCK_WAIT_MS=2000", "USERS=400",
				`FAULTS=[{"point":"holder-crash","effect":"abandon","probability":0.1}]`,
			},
		},
		{
			ID: "naive-holder-killed", Group: deathGroup, Title: "SET NX PX: a dead holder's lock ends with its lease",
			Sources: []lab.Source{
				{Document: "000", Section: "Core idea"},
				{Document: "001", Section: "2. The newer SET command: lock and expiry in one step"},
				{Document: "003", Section: "Setting a timeout"},
			},
			Hypothesis:  "With a lease of 600 ms the lock of a killed holder is free again 600 ms after it was taken, at the latest.",
			Arrangement: "The same death in the same place, and the same second buyer; the key is made with a lease of 600 ms.",
			Why: "The key was made with its end in it, and the server keeps that end whatever becomes of the client. Once the 600 ms are over the key is gone and the second buyer, who asks " +
				"again every few milliseconds, finds it free. What it costs is a number that has to be guessed: until the lease is over everybody waits for a dead " +
				"process, so it should be short; and a holder that lives must be done before it is over, so it should be long. " +
				"A lease that is renewed while its holder lives takes these two wishes apart.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.StuckKeys, finding.Overlaps},
			Partner: "setnx-holder-killed",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("naive", deadLease, deadWait)},
			Scene:   holderKilled,
			K6: []string{
				"LOCK=naive", "SCOPE=voucher", "STOCK_MODE=unguarded", "LOCK_WAIT_MS=30000", "LOCK_TTL_MS=500", "USERS=400",
				`FAULTS=[{"point":"holder-crash","effect":"abandon","probability":0.1}]`,
			},
		},
	}
}

func lifeRenews() lab.Set {
	return lab.Set{
		{
			ID: "watchdog-holder-killed", Group: deathGroup, Title: "A watchdog dies with its process",
			Sources: []lab.Source{
				{Document: "001", Section: "The watchdog"},
				{Document: "003", Section: "Watch Dog: extending automatically"},
			},
			Hypothesis:  "A lock that is renewed for as long as its holder's process lives is free again within one watchdog timeout of its death.",
			Arrangement: "The same death and the same second buyer; the lease is 600 ms and would be renewed every 200 ms.",
			Why: "The watchdog is a part of the process: what is killed renews nothing. From the last renewal on, the lease runs out as a fixed one does, and the next buyer is in after one timeout " +
				"at the most. The holder might have worked for an hour under the same 600 ms, since what is renewed need not be guessed. " +
				"The default of 30 s is a choice: as long as that everybody stands still after a death, and as long as that a process may stand still and keep its lock. What a watchdog " +
				"cannot see is work that hangs in a process that lives.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.StuckKeys, finding.Overlaps},
			Partner: "setnx-holder-killed",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("reentrant", 0, deadWait), Watchdog: deadLease},
			Scene:   holderKilled,
		},
		{
			ID: "zk-holder-killed", Group: deathGroup, Title: "ZooKeeper: the node goes with the session",
			Sources: []lab.Source{
				{Document: "001", Section: "Node types and watches of ZooKeeper"},
				{Document: "001", Section: "How it is done"},
				{Document: "001", Section: "Summary: how ZooKeeper makes a distributed lock"},
			},
			Hypothesis:  "The ephemeral node of a killed holder is gone as soon as ZooKeeper has given up its session, and whoever watches it gets in.",
			Arrangement: "The same death and the same second buyer; the lock is an ephemeral node, and a session ends 600 ms after its last heartbeat.",
			Why: "The node belongs to the session, and the session lives by the heartbeats of the holder's process. They stop with it; when the timeout has passed without one, the server ends the session and deletes " +
				"all that is ephemeral in it. The second buyer watches the node, is told that it is gone, and makes its own. There is no lease to be guessed for the work, " +
				"which may take as long as it likes; but the session's timeout is a lease all the same, of the process. A process that is only paused for that long has lost its lock " +
				"as surely as a dead one.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.StuckKeys, finding.Overlaps},
			Partner: "setnx-holder-killed",
			Needs:   []stage.Server{stage.ZooKeeper},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("zk-node", 0, deadWait), Watchdog: deadLease},
			Scene:   holderKilled,
		},
	}
}

// dyingPolicy has a holder die after its first command, where there is a second one.
func dyingPolicy(mechanism string) lab.Setup {
	p := asking(mechanism, deadLease, deadWait)
	p.Faults = []lock.Fault{{Point: lock.BetweenSetNXAndExpire, Effect: lock.EffectKill}}
	return lab.Setup{Policy: p}
}

func diesBetweenCommands() lab.Set {
	const group = "Death between two commands"
	return lab.Set{
		{
			ID: "setnx-expire-killed-between", Group: group, Title: "Killed after SETNX and before EXPIRE",
			Sources: []lab.Source{
				{Document: "001", Section: "2. The newer SET command: lock and expiry in one step"},
				{Document: "003", Section: "Setting a timeout"},
			},
			Hypothesis:  "A holder that dies between the command that takes the lock and the one that gives it an end leaves a lock without an end.",
			Arrangement: "Buyer 1 is to have a lease of 600 ms, in two commands. Its process is killed (SIGKILL) after the first of them. Buyer 2 of another process waits for 1.8 s.",
			Why: "Both commands are right, and each is done as a whole; but there is a moment between them, and a death, a lost connection or a restart of the server in that " +
				"moment leaves the first one alone. The key is there, nobody knows that it is theirs, and it has no end: it is the bare SETNX again. " +
				"The moment is short and the loss is for ever, so that a busy system will meet it some day, on a day on which other things go wrong as well. Trying EXPIRE once more does not help either, " +
				"since whoever would have to try is dead. One command has no middle.",
			Seen:    "now and then, after a crash or a deployment, a key without a TTL that nobody ever deletes",
			Cure:    "One command that does both: SET key value NX PX (set-nx-px-killed); or a script.",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.StuckKeys},
			Partner: "set-nx-px-killed",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   dyingPolicy("setnx-expire"),
			Scene:   holderKilled,
			K6: []string{
				"LOCK=setnx-expire", "SCOPE=voucher", "STOCK_MODE=unguarded", "LOCK_WAIT_MS=2000", "USERS=400",
				`FAULTS=[{"point":"between-setnx-and-expire","effect":"abandon","probability":0.1}]`,
			},
		},
		{
			ID: "set-nx-px-killed", Group: group, Title: "One command has no middle to die in",
			Sources: []lab.Source{
				{Document: "001", Section: "2. The newer SET command: lock and expiry in one step"},
				{Document: "003", Section: "Setting a timeout"},
			},
			Hypothesis:  "When the lock and its end are made by one command, there is no moment in which a death leaves the one without the other.",
			Arrangement: "The same lease and second buyer, and the same plan of a death between two commands, for which there is no place here: so buyer 1's process is killed 150 ms after its one command.",
			Why: "SET key value NX PX 600 makes the key and its end together or makes neither. Wherever the process dies, before the command, while it is on its way or after it, there is no " +
				"key or there is one that ends. The reply may be lost, and then nobody knows that the lock was taken; that, too, is over when the lease is. " +
				"What is still missing is all that comes after: the release deletes whatever is under the key, and a holder that takes longer than 600 ms has " +
				"no lock and does not know it.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.StuckKeys, finding.Overlaps},
			Partner: "setnx-expire-killed-between",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   dyingPolicy("naive"),
			Scene:   holderKilled,
			K6: []string{
				"LOCK=naive", "SCOPE=voucher", "STOCK_MODE=unguarded", "LOCK_WAIT_MS=30000", "USERS=400",
				`FAULTS=[{"point":"between-setnx-and-expire","effect":"abandon","probability":0.1}]`,
			},
		},
	}
}

func rowOfTheDead() lab.Set {
	const group = "The row of a dead holder"
	return lab.Set{
		{
			ID: "mysql-row-holder-killed", Group: group, Title: "A row in the database: a dead holder's stays",
			Sources: []lab.Source{
				{Document: "001", Section: "1. A lock in the database?"},
				{Document: "001", Section: "What a distributed lock has to fulfil"},
			},
			Hypothesis:  "When the lock is a row that its holder inserts and deletes, the row of a killed holder stays, and nobody gets in any more.",
			Arrangement: "Buyer 1's process inserts the row and is killed (SIGKILL) 150 ms later. Buyer 2 of another process waits for 1.8 s.",
			Why: "The unique index lets one INSERT through, which excludes as well as any lock. But the row was committed, because the others must see it; and what is committed " +
				"does not care that the connection which wrote it is gone. It is the same failure as with SETNX, on a server of which one expects better. A database does " +
				"clean up after a dead client: its transaction is undone and its locks are freed. A row that was meant as a lock is none of these, it is data. " +
				"Either it has an end that others may act upon, or the lock has to be one of the database's own.",
			Seen:    "after one death every buyer is told busy, until somebody deletes the row by hand",
			Cure:    "A column that says when the row ends, renewed by its holder, and a take-over of rows that have ended (mysql-row-expiry-holder-killed).",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.StuckKeys},
			Partner: "mysql-row-expiry-holder-killed",
			Needs:   []stage.Server{stage.Database},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("mysql-row", 0, deadWait), Watchdog: deadLease},
			Scene:   holderKilled,
			K6: []string{
				"LOCK=mysql-row", "SCOPE=voucher", "STOCK_MODE=unguarded", "LOCK_WAIT_MS=2000", "USERS=400",
				`FAULTS=[{"point":"holder-crash","effect":"abandon","probability":0.1}]`,
			},
		},
		{
			ID: "mysql-row-expiry-holder-killed", Group: group, Title: "A row with an end can be taken over",
			Sources: []lab.Source{
				{Document: "001", Section: "1. A lock in the database?"},
				{Document: "001", Section: "What a distributed lock has to fulfil"},
			},
			Hypothesis:  "A row that says when it ends is taken over by the next buyer within one lease of its holder's death.",
			Arrangement: "The same death and the same second buyer; the row has an end, 600 ms after the last renewal by the server's clock.",
			Why: "The row of the dead holder still stands there, but it says until when it counts. The second buyer's UPDATE makes the row its own where the end is past, and the same statement asks " +
				"and takes, so that of several who try only one succeeds. The server's clock decides, not those of the buyers. Nothing deletes an old row by itself, and nothing needs to: it is taken over " +
				"when somebody wants it. What a lease is in Redis it is here, with all that follows: a holder that is paused for longer than its lease finds " +
				"somebody else's name in its row.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.StuckKeys, finding.Overlaps},
			Partner: "mysql-row-holder-killed",
			Needs:   []stage.Server{stage.Database},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("mysql-row-expiry", 0, deadWait), Watchdog: deadLease},
			Scene:   holderKilled,
			K6: []string{
				"LOCK=mysql-row-expiry", "SCOPE=voucher", "STOCK_MODE=unguarded", "LOCK_WAIT_MS=30000", "LOCK_TTL_MS=500", "USERS=400",
				`FAULTS=[{"point":"holder-crash","effect":"abandon","probability":0.1}]`,
			},
		},
	}
}

// holderKilled kills buyer 1's process while it holds the lock, or, where a fault does
// that before, while it takes it. Then buyer 2 of another process waits for the lock.
func holderKilled(p *lab.Play, with lab.Setup) {
	c := gather(p, with)
	dying, other := c.hire("shop-1", c.serve), c.hire("shop-2", c.serve, steady)
	c.observe()

	const first, next = "buyer 1", "buyer 2"
	asks := c.ask(first)
	asks.Owner = first // so that it is known whose key it is, though its caller never is
	asks.Faults = with.Policy.Faults
	switch _, err := c.enter(dying, asks); {
	case err == nil:
		p.Pause(deadWork)
		dying.Kill()
	case !errors.Is(err, actor.ErrDead):
		c.must(err)
	}
	asks = c.ask(next)
	asks.Owner = next // so that what is there while it waits is not taken for its own
	g, err := c.enter(other, asks)
	switch {
	case err == nil:
		p.Pause(deadWork)
		_ = other.Release(p.Context(), g.Lease) // what it says stands in the trace
	case !errors.Is(err, lock.ErrNotAcquired):
		c.must(err)
	}

	evidence := c.whole()
	evidence.Grace = deadLease // of the hypotheses, whatever the setup says
	death := evidence.Deaths[0].At
	p.Judge(overdue(evidence, death+int64(deadLease+deadSlack)))
	if err == nil {
		p.Measure("the next one got in after the death", millis(time.Duration(g.At-death)), "ms")
	} else {
		p.Measure("the next one waited in vain", millis(g.Waited()), "ms")
	}
}

// overdue is the evidence where a key had to be free by a moment: what was known then,
// where it was still stuck and is not any more in the end, and else all of it.
func overdue(evidence judge.Evidence, by int64) judge.Evidence {
	then := until(evidence, min(by, evidence.End))
	isStuck := func(ev judge.Evidence) bool { return judge.Judge(ev).Anomalies[finding.StuckKeys] > 0 }
	if isStuck(then) && !isStuck(evidence) {
		return then
	}
	return evidence
}
