package experiments

import (
	"cmp"
	"fmt"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/load"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/lab/witness"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// sales are the experiments about what a sale needs at all: a lock or none, one that
// all processes share, the database's own constraints, and what waiting costs.
func sales() []comparison {
	return []comparison{
		{text: "no-lock", scenario: allAtOnce(10, 60), cases: []setupCase{
			{id: "no-lock", setup: thinking("none"), breaks: kinds{finding.Oversold, finding.LostUpdates}},
			{id: "reentrant-lock", setup: thinking("reentrant"), holds: kinds{
				finding.Oversold, finding.LostUpdates, finding.LostOrders, finding.DuplicateOrders,
				finding.StaleWrites, finding.Overlaps, finding.WrongReleases, finding.StuckKeys,
			}},
			{
				id: "conditional-stock-no-lock", setup: withStock(voucher.StockConditional, thinking("none")),
				holds: kinds{finding.Oversold, finding.LostOrders},
			},
			{
				id: "version-cas-no-lock", setup: withStock(voucher.StockVersion, thinking("none")),
				holds: kinds{finding.Oversold}, scenario: refusingSale,
			},
		}, parameters: []lab.Parameter{
			sellingLocks(), scopes(), stockModes(voucher.StockUnguarded, voucher.StockConditional, voucher.StockVersion),
			fixedLease(20*time.Millisecond, 10*time.Second), workInside(2 * time.Second), buyers(60, 1, 300), stock(10, 1, 300),
		}},
		{text: "local-lock", scenario: severalProcesses(10, 40), cases: []setupCase{
			{
				id: "local-two-processes", setup: inProcesses(2, thinking("local")),
				breaks: kinds{finding.Oversold, finding.LostUpdates, finding.Overlaps},
			},
			{
				id: "local-one-process", setup: inProcesses(1, thinking("local")),
				holds: kinds{finding.Oversold, finding.LostUpdates, finding.LostOrders, finding.Overlaps},
			},
		}, parameters: []lab.Parameter{
			sellingLocks(), processes(), fixedLease(20*time.Millisecond, 10*time.Second), workInside(2 * time.Second), buyers(40, 1, 300), stock(10, 1, 300),
		}},
		{text: "unique-index", scenario: everyUserThreeTimes, cases: []setupCase{
			{id: "no-unique-index", setup: withoutLock(false), breaks: kinds{finding.DuplicateOrders}},
			{id: "unique-index-no-lock", setup: withoutLock(true), holds: kinds{finding.DuplicateOrders}},
		}, parameters: []lab.Parameter{workInside(2 * time.Second), buyers(20, 1, 100)}},
		{text: "try-once", scenario: sixtyForThirty, cases: []setupCase{
			{id: "try-once", setup: queueing("reentrant", 0), breaks: kinds{finding.TurnedAway}},
			{id: "wait-and-be-woken", setup: queueing("reentrant", patience), holds: kinds{finding.TurnedAway, finding.Oversold}},
		}, parameters: []lab.Parameter{
			waitLimit(0, patience), workInside(500 * time.Millisecond), buyers(60, 1, 300), stock(30, 1, 300),
		}},
		{text: "waiting-cost", scenario: countCommands, needs: realServers(), cases: []setupCase{
			{id: "polling-costs", setup: queueing("lua", patience), breaks: kinds{finding.ExcessCommands}},
			{id: "wake-up-costs", setup: queueing("reentrant", patience), holds: kinds{finding.ExcessCommands}},
		}, parameters: []lab.Parameter{
			locks("naive", "uuid", "lua", "reentrant", "fair"), workInside(200 * time.Millisecond), buyers(40, 1, 200),
		}},
	}
}

// realServers are the servers through which several processes share a sale.
func realServers() []testbed.Server { return []testbed.Server{testbed.RedisServer, testbed.Database} }

// openPolicy sells with the lock as the only protection: the stock is read and written back,
// under one key for all buyers, who wait for the lock.
func openPolicy(mechanism string, faults ...lock.Fault) voucher.Policy {
	p := voucher.DefaultPolicy()
	p.Lock = mechanism
	p.Scope = voucher.ScopeVoucher
	p.Stock = voucher.StockUnguarded
	p.LockWaitMS = (10 * time.Second).Milliseconds()
	p.Faults = faults
	return p
}

// thinking makes all buyers read the stock before any of them writes, if the lock lets them.
func thinking(mechanism string) lab.Setup {
	return lab.Setup{Policy: openPolicy(mechanism, pauseAt(lock.CriticalSection, thinkTime))}
}

// withStock is a setup with another stock strategy.
func withStock(strategy voucher.Stock, s lab.Setup) lab.Setup {
	s.Policy.Stock = strategy
	return s
}

// inProcesses is a setup with n API processes.
func inProcesses(n int, s lab.Setup) lab.Setup {
	s.Instances = n
	return s
}

// pauseAt is a fault that makes every buyer pause at a point.
func pauseAt(point lock.Point, d time.Duration) lock.Fault {
	return lock.Fault{Point: point, PauseMS: d.Milliseconds()}
}

// thinkTime is the pause between reading the stock and writing it: long enough for all
// other buyers to read it as well.
const thinkTime = 50 * time.Millisecond

// allAtOnce makes buyers come all at once for a stock.
func allAtOnce(stock int64, buyers int) lab.Scenario {
	return func(t *lab.Trial, setup lab.Setup) {
		sellAtOnce(t, setup, int64(cmp.Or(setup.Stock, int(stock))), cmp.Or(setup.Buyers, buyers))
	}
}

func sellAtOnce(t *lab.Trial, setup lab.Setup, stock int64, buyers int) (*load.Outcome, *order.Audit) {
	sale := t.Sale(setup.Policy, stock, t.API(setup.Instances))
	sale.Observe()
	outcome := sale.SendLoad(load.Load{Buyers: buyers, Concurrency: buyers})
	t.Load(outcome)
	evidence := sale.Evidence()
	t.Judge(evidence)
	return outcome, evidence.Audit
}

// severalProcesses is the same sale in as many processes as the setup says. Without the servers through which API processes
// share a sale, lock clients sell, which share a file.
func severalProcesses(stock, buyers int) lab.Scenario {
	api := allAtOnce(int64(stock), buyers)
	return func(t *lab.Trial, setup lab.Setup) {
		if setup.Instances < 2 || t.RealServers() {
			api(t, setup)
			return
		}
		setup.Stock, setup.Buyers = cmp.Or(setup.Stock, stock), cmp.Or(setup.Buyers, buyers)
		clientsAtOnce(t, setup)
	}
}

// clientsAtOnce makes buyers come all at once, the first to the first process, the second to the second one, and so on.
func clientsAtOnce(t *lab.Trial, setup lab.Setup) {
	t.Require(testbed.ServersOf(setup.Policy.Lock)...)
	s := newSellers(t, setup, int64(setup.Stock))
	var processes []*lockclient.Client
	for i := range setup.Instances {
		processes = append(processes, s.start(fmt.Sprintf("process-%d", i+1)))
	}
	if lock.StoreOf(setup.Policy.Lock) != lock.InProcess {
		s.observe()
	}
	thinks := thinkTime
	for _, f := range setup.Policy.Faults {
		thinks = time.Duration(f.PauseMS) * time.Millisecond
	}
	var bought []func()
	for n := range setup.Buyers {
		bought = append(bought, t.Go(func() {
			s.buy(processes[n%len(processes)], fmt.Sprintf("buyer %d", n+1), int64(n+1), thinks)
		}))
	}
	for _, wait := range bought {
		wait()
	}
	t.Judge(s.fullEvidence())
}

// refusingSale is for a sale that must not oversell but refuses buyers while there is stock
// left. If it does neither, the hypothesis was not tested.
func refusingSale(t *lab.Trial, setup lab.Setup) {
	outcome, audit := sellAtOnce(t, setup, int64(cmp.Or(setup.Stock, 10)), cmp.Or(setup.Buyers, 60))
	busy := outcome.Answers[load.Busy]
	t.Measure(i18n.F("told busy"), float64(busy), i18n.F("buyers"))
	t.Measure(i18n.F("left in stock"), float64(audit.Stock), i18n.F("units"))
	if audit.Oversold() == 0 && (busy == 0 || audit.Stock == 0) {
		t.Fatalf("the crowd did not meet at the stock: %d buyers were told busy, and %d units are left", busy, audit.Stock)
	}
}

// withoutLock sells one unit to each user without a lock. Only the unique index can
// prevent a second order.
func withoutLock(unique bool) lab.Setup {
	p := voucher.DefaultPolicy()
	p.Lock = "none"
	p.Unique = unique
	p.Faults = []lock.Fault{pauseAt(lock.CriticalSection, thinkTime)}
	return lab.Setup{Policy: p}
}

// everyUserThreeTimes sends three requests of each of 20 users at the same moment.
func everyUserThreeTimes(t *lab.Trial, setup lab.Setup) {
	const each = 3
	users := cmp.Or(setup.Buyers, 20)
	sale := t.Sale(setup.Policy, int64(users*each), t.API(setup.Instances))
	t.Load(sale.SendLoad(load.Load{Buyers: users, Requests: each, Concurrency: users}))
	t.Judge(sale.Evidence())
}

// queueing sells correctly, under one key for all buyers, who wait for it.
func queueing(mechanism string, wait time.Duration) lab.Setup {
	p := voucher.DefaultPolicy()
	p.Lock = mechanism
	p.Scope = voucher.ScopeVoucher
	p.LockWaitMS = wait.Milliseconds()
	p.Faults = []lock.Fault{pauseAt(lock.CriticalSection, serviceTime)}
	return lab.Setup{Policy: p}
}

const (
	// serviceTime is how long a buyer holds a lock that others wait for.
	serviceTime = 20 * time.Millisecond
	// patience is a wait limit that no buyer reaches.
	patience = 20 * time.Second
)

// sixtyForThirty sells 30 units to 60 buyers, and counts the buyers that were refused
// although units are left at the end.
func sixtyForThirty(t *lab.Trial, setup lab.Setup) {
	stock, buyers := cmp.Or(setup.Stock, 30), cmp.Or(setup.Buyers, 60)
	sale := t.Sale(setup.Policy, int64(stock), t.API(setup.Instances))
	outcome := sale.SendLoad(load.Load{Buyers: buyers, Concurrency: buyers, Spread: 300 * time.Millisecond})
	t.Load(outcome)
	evidence := sale.Evidence()
	t.Judge(evidence)

	told, left := outcome.Answers[load.Busy], int(evidence.Audit.Stock)
	t.Found(finding.TurnedAway, min(told, left))
	t.Measure(i18n.F("told busy"), float64(told), i18n.F("buyers"))
	t.Measure(i18n.F("left in stock"), float64(left), i18n.F("units"))
	for _, a := range outcome.All {
		if a.Code != load.Busy {
			continue
		}
		// A buyer that comes just before a release makes no picture.
		if w, ok := witness.Picture(evidence, fmt.Sprintf("buyer %d", a.User)); ok {
			w.Kind = finding.TurnedAway
			w.Summary = i18n.F("%s This buyer is told that the service is busy, and so are %d others; at the end %d units are left.", w.Summary, told-1, left)
			t.Witness(w)
			return
		}
	}
}
