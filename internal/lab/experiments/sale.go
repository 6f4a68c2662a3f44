package experiments

import (
	"slices"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/load"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// sales are the experiments about what a sale needs at all: a lock or none, one that
// all processes share, the database's own defences, and what waiting costs.
func sales() lab.Set {
	return slices.Concat(nothingAtTheDoor(), lookingAgain(), oneProcess(), onePerUser(), turnedAway(), askingAgain())
}

// openPolicy sells with nothing but the lock between the buyers: the stock is read
// and written back, under one key for all of them, for whom it is worth waiting.
func openPolicy(mechanism string, faults ...lock.Fault) voucher.Policy {
	p := voucher.DefaultPolicy()
	p.Lock = mechanism
	p.Scope = voucher.ScopeVoucher
	p.Stock = voucher.StockUnguarded
	p.LockWaitMS = (10 * time.Second).Milliseconds()
	p.Faults = faults
	return p
}

// stockedBy is a policy with another stock strategy.
func stockedBy(strategy voucher.Stock, p voucher.Policy) voucher.Policy {
	p.Stock = strategy
	return p
}

// pauseAt is a fault that makes everybody stand still at a point.
func pauseAt(point lock.Point, d time.Duration) lock.Fault {
	return lock.Fault{Point: point, PauseMS: d.Milliseconds()}
}

// looking is how long a buyer of the rush thinks between looking at the stock and
// taking from it: long enough for the others to look as well.
const looking = 50 * time.Millisecond

// noLock is the failure that the first two sets are about.
const noLock = "No lock at all"

func nothingAtTheDoor() lab.Set {
	rush := rushFor(10, 60)
	return lab.Set{
		{
			ID: "no-lock", Group: noLock, Title: "No lock: every buyer is at the stock at once",
			Sources: []lab.Source{
				{Document: "000", Section: "Basic principle and implementation"},
				{Document: "003", Section: "Getting started with distributed locks"},
			},
			Hypothesis: "Without a lock, a sale that reads the stock and writes it back less one sells more than it has.",
			Arrangement: "60 buyers come at once for 10 vouchers. Each reads the stock, takes 50 ms, and writes back what it read less one, " +
				"together with its order.",
			Why: "All buyers read the stock before any of them has written it. Each sees that something is left, computes the same new stock and writes it: " +
				"of all these writes the database keeps what one of them says, and every order. Nothing in there is an error to the database; each transaction by " +
				"itself is right. Between reading and writing lies a time in which what was read can become wrong, and only somebody who keeps the " +
				"others out of it, or looks again while writing, can sell correctly. The next experiment puts a lock around that time.",
			Seen:    "more orders than stock: buyers read the same stock and overwrite each other's",
			Cure:    "A lock that all processes share around reading and writing; or a write that looks for itself (conditional-stock-no-lock).",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.Oversold, finding.LostUpdates},
			Partner: "reentrant-lock",
			Setup:   lab.Setup{Policy: openPolicy("none", pauseAt(lock.CriticalSection, looking))},
			Scene:   rush,
			K6:      []string{"LOCK=none", "SCOPE=voucher", "STOCK_MODE=unguarded", "PAUSE_MS=50"},
		},
		{
			ID: "reentrant-lock", Group: noLock, Title: "A lock around it: one buyer at a time",
			Sources: []lab.Source{
				{Document: "000", Section: "Core idea"},
				{Document: "003", Section: "The Redisson distributed lock"},
			},
			Hypothesis:  "Under a lock on the voucher, the same careless sale sells exactly its stock.",
			Arrangement: "The same 60 buyers, stock and 50 ms as without a lock; each takes the voucher's lock before it reads, and releases it after its commit.",
			Why: "The lock makes a queue of the crowd. Whoever is inside reads, writes and commits before the next one reads, so that no two buyers ever " +
				"compute from the same stock. After the tenth order the next one reads 0 and is told that all is sold. It also costs something: ten buyers one after " +
				"the other take ten times 50 ms, where without a lock all of them took that long together. So the work under a lock is to be " +
				"short, and where the database can look for itself, the lock need not guard the stock at all.",
			Expect: finding.Holds,
			About: []finding.Kind{
				finding.Oversold, finding.LostUpdates, finding.LostOrders, finding.DuplicateOrders,
				finding.StaleWrites, finding.Overlaps, finding.WrongReleases, finding.StuckKeys,
			},
			Partner: "no-lock",
			Setup:   lab.Setup{Policy: openPolicy("reentrant", pauseAt(lock.CriticalSection, looking))},
			Scene:   rush,
			K6:      []string{"LOCK=reentrant", "SCOPE=voucher", "STOCK_MODE=unguarded", "LOCK_WAIT_MS=30000", "PAUSE_MS=50"},
		},
	}
}

// lookingAgain are the writes that look for themselves.
func lookingAgain() lab.Set {
	rush := rushFor(10, 60)
	return lab.Set{
		{
			ID: "conditional-stock-no-lock", Group: noLock, Title: "stock > 0 in the statement holds without any lock",
			Sources:     []lab.Source{{Document: "002", Section: "A flash sale as a use case"}},
			Hypothesis:  "An UPDATE that takes one only where stock > 0 never oversells, with no lock at all.",
			Arrangement: "The same 60 buyers for 10 vouchers without a lock; the stock is taken by SET stock = stock - 1 WHERE id = ? AND stock > 0.",
			Why: "The statement looks and writes in one step. The database locks the row while it works, so that the second buyer's condition is checked " +
				"against what the first one left, not against what somebody read 50 ms ago. The eleventh buyer's UPDATE finds no row, its order is never written, and it is told " +
				"that all is sold. Every order that a buyer was told of is in the database. A lock around this adds nothing against overselling; " +
				"it may still be wanted for what a single row cannot express, such as one order per user without an index.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.Oversold, finding.LostOrders},
			Partner: "no-lock",
			Setup:   lab.Setup{Policy: stockedBy(voucher.StockConditional, openPolicy("none", pauseAt(lock.CriticalSection, looking)))},
			Scene:   rush,
			K6:      []string{"LOCK=none", "SCOPE=voucher", "STOCK_MODE=conditional", "PAUSE_MS=50"},
		},
		{
			ID: "version-cas-no-lock", Group: noLock, Title: "Comparing a version holds, and turns buyers away",
			Sources: []lab.Source{{Document: "004", Section: "Possible solutions"}},
			Hypothesis: "A write that succeeds only while the row's version is the one that was read never oversells without a lock, " +
				"and refuses most of a crowd although there is stock left.",
			Arrangement: "The same 60 buyers for 10 vouchers without a lock; the stock is written WHERE version = the version that was read. " +
				"A buyer whose version is old is told busy, and does not come again.",
			Why: "All buyers read the same version. The first one to write moves it on, and every other write of that round finds a version that is not the one it read: " +
				"nothing is overwritten, so nothing is oversold. But a refused buyer learns only that somebody was faster, not that " +
				"the stock is gone. In a crowd nearly everybody is refused while vouchers lie there. Trying again costs another round for each winner. The condition stock > 0 " +
				"asks for what matters and lets all of them through, one after the other; a version is for rows where any change in between matters.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.Oversold},
			Partner: "no-lock",
			Setup:   lab.Setup{Policy: stockedBy(voucher.StockVersion, openPolicy("none", pauseAt(lock.CriticalSection, looking)))},
			Scene:   refusingRush,
			K6:      []string{"LOCK=none", "SCOPE=voucher", "STOCK_MODE=version", "PAUSE_MS=50"},
		},
	}
}

func oneProcess() lab.Set {
	const group = "A lock that only one process knows"
	rush := rushFor(10, 40)
	return lab.Set{
		{
			ID: "local-two-processes", Group: group, Title: "A mutex in each of two processes: two at a time",
			Sources: []lab.Source{
				{Document: "002", Section: "Distributed locks with Redis"},
				{Document: "000", Section: "Basic principle and implementation"},
			},
			Hypothesis:  "A mutex inside the process does not keep two processes from selling the same voucher twice.",
			Arrangement: "Two API processes, each with a mutex of its own, and 40 buyers at once for 10 vouchers, sent to both in turn. Each reads the stock, takes 50 ms and writes.",
			Why: "A mutex is a word in the memory of one process. In each of them buyers come in one by one, just as they should; the two queues know nothing of " +
				"each other. So there are always two buyers inside, one in each process, who read the same stock and write the same value: two orders for each " +
				"voucher. With one process more it would be three. Tests on one machine with one process do not see it, " +
				"and it begins on the day on which the service is scaled out. A lock for several processes has to be kept in a place that all of them ask.",
			Seen:    "two orders for each voucher: one buyer inside in each process",
			Cure:    "Keep the lock where all processes look (reentrant-lock). A mutex is right for what one process alone does.",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.Oversold, finding.LostUpdates, finding.Overlaps},
			Partner: "local-one-process",
			Needs:   realServers(),
			Setup:   lab.Setup{Policy: openPolicy("local", pauseAt(lock.CriticalSection, looking)), Instances: 2},
			Scene:   rush,
			K6:      []string{"LOCK=local", "SCOPE=voucher", "STOCK_MODE=unguarded", "LOCK_WAIT_MS=30000", "PAUSE_MS=50", "STOCK=20", "USERS=400", "INSTANCES=2"},
		},
		{
			ID: "local-one-process", Group: group, Title: "A mutex in the only process: one at a time",
			Sources:     []lab.Source{{Document: "002", Section: "Distributed locks with Redis"}},
			Hypothesis:  "As long as one process alone sells, a mutex inside it is enough.",
			Arrangement: "One API process, and the same 40 buyers at once for 10 vouchers.",
			Why: "There is one queue, because there is one process, and so one buyer inside at a time. The mutex is also the cheapest lock there is: no server is asked, " +
				"nobody's reply can be lost, and when the process dies the lock goes with it and with all the work that it guarded. What it cannot do is to be seen " +
				"by anybody else. That is the whole difference to a distributed lock, and everything that can go wrong with one comes from it: the lock then lives in a server of its own, " +
				"and its holder can die, or be late, without the server knowing.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.Oversold, finding.LostUpdates, finding.LostOrders, finding.Overlaps},
			Partner: "local-two-processes",
			Setup:   lab.Setup{Policy: openPolicy("local", pauseAt(lock.CriticalSection, looking)), Instances: 1},
			Scene:   rush,
			K6: []string{
				"LOCK=local", "SCOPE=voucher", "STOCK_MODE=unguarded", "LOCK_WAIT_MS=30000", "PAUSE_MS=50", "STOCK=20", "USERS=400", "INSTANCES=1",
			},
		},
	}
}

// rushFor is a rush of buyers, all at once, for a stock.
func rushFor(stock int64, buyers int) lab.Scene {
	return func(p *lab.Play, with lab.Setup) { rushOf(p, with, stock, buyers) }
}

func rushOf(p *lab.Play, with lab.Setup, stock int64, buyers int) (*load.Outcome, *order.Audit) {
	sale := p.Sale(with.Policy, stock, p.API(with.Instances))
	sale.Observe()
	outcome := sale.Rush(load.Load{Buyers: buyers, AtOnce: buyers})
	p.Load(outcome)
	evidence := sale.Evidence()
	p.Judge(evidence)
	return outcome, evidence.Audit
}

// refusingRush is a rush in which a sale that does not oversell is to refuse buyers
// while there is stock left. Where it does neither, the hypothesis was not put to the
// test.
func refusingRush(p *lab.Play, with lab.Setup) {
	outcome, audit := rushOf(p, with, 10, 60)
	busy := outcome.Answers[load.Busy]
	p.Measure("told busy", float64(busy), "buyers")
	p.Measure("left in stock", float64(audit.Stock), "vouchers")
	if audit.Oversold() == 0 && (busy == 0 || audit.Stock == 0) {
		p.Fatalf("the crowd did not meet at the stock: %d buyers were told busy, and %d vouchers are left", busy, audit.Stock)
	}
}
