package experiments

import (
	"cmp"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/voucher"
)

// pauses are the experiments about a holder whose process pauses for longer than its
// lease.
func pauses() []comparison {
	return []comparison{
		{text: "paused-holder", scenario: pausedHolder, needs: []testbed.Server{testbed.Redis, testbed.Stock}, quiet: true, cases: []setupCase{
			{id: "paused-holder", setup: pausedPolicy("reentrant", voucher.StockUnguarded), breaks: lateWriteKinds()},
			{id: "paused-holder-fenced", setup: pausedPolicy("fenced", voucher.StockFenced), holds: lateWriteKinds()},
			{id: "paused-holder-version", setup: pausedPolicy("reentrant", voucher.StockVersion), holds: lateWriteKinds()},
		}, parameters: append([]lab.Parameter{locks("reentrant", "fair", "rw", "fenced")}, pauseParameters()...)},
		{text: "paused-holder-majority", scenario: pausedHolder, needs: []testbed.Server{testbed.Nodes, testbed.Stock}, quiet: true, cases: []setupCase{
			{
				id: "red-paused-holder", setup: pausedPolicy("red", voucher.StockUnguarded),
				breaks: lateWriteKinds(), partner: "paused-holder-fenced",
			},
		}, parameters: pauseParameters()},
		{text: "session-expired", scenario: pausedHolder, needs: []testbed.Server{testbed.ZooKeeper, testbed.Stock}, quiet: true, cases: []setupCase{
			{id: "zk-session-expired", setup: pausedPolicy("zk-node", voucher.StockUnguarded), breaks: lateWriteKinds()},
			{id: "zk-session-expired-fenced", setup: pausedPolicy("zk-node", voucher.StockFenced), holds: lateWriteKinds()},
		}, parameters: pauseParameters()},
	}
}

// pauseParameters are what can be changed about a pause.
func pauseParameters() []lab.Parameter {
	const shown = "the time that buyer 2 takes"
	return []lab.Parameter{
		stockModes(voucher.StockUnguarded, voucher.StockConditional, voucher.StockVersion, voucher.StockFenced),
		lease(500*time.Millisecond, 5*time.Second),
		lab.DurationParameter("pause", i18n.F("how long buyer 1's process is paused"), 10*time.Millisecond, 10*time.Second,
			func(s lab.Setup) time.Duration { return s.Pause }, func(s *lab.Setup, d time.Duration) { s.Pause = d }).Named("0s", shown),
		stock(pauseStock, 1, 10),
	}
}

// pauseStock is for the first two buyers; there are three.
const pauseStock = 2

// pauseLease is how long a lock lasts while its holder's process is paused: the watchdog
// timeout, or the session timeout.
const pauseLease = 800 * time.Millisecond

// step is how long a buyer that is not paused takes for each step.
const step = 100 * time.Millisecond

// pausedPolicy sells under a lock that is renewed. The lock and the stock strategy are the
// only protection.
func pausedPolicy(mechanism string, strategy voucher.Stock) lab.Setup {
	p := policyFor(mechanism, 0, patience)
	p.Scope, p.Stock = voucher.ScopeVoucher, strategy
	return lab.Setup{Policy: p, Watchdog: pauseLease}
}

// lateWriteKinds are the kinds of anomaly that a late write can cause.
func lateWriteKinds() []finding.Kind {
	return []finding.Kind{finding.StaleWrites, finding.LostUpdates, finding.Oversold}
}

// pausedHolder pauses buyer 1's process between reading the stock and writing it, until buyer
// 2 of another process has acquired the lock, bought and released, or for as long as the setup
// says. Buyer 3 comes last.
func pausedHolder(t *lab.Trial, setup lab.Setup) {
	s := newSellers(t, setup, int64(cmp.Or(setup.Stock, pauseStock)))
	pausing, other := s.start("process-1"), s.start("process-2", longSession)
	s.observe()

	const first, next, last = "buyer 1", "buyer 2", "buyer 3"
	g := s.take(pausing, s.request(first))
	looked, err := pausing.Read(t.Context(), lockclient.Read{Voucher: s.sale.Voucher, Lease: g.Lease, IgnoreLoss: true})
	s.Must(err)
	t.Sleep(step)
	pausing.Pause()
	stopped := time.Now().UnixNano()
	var later lockclient.Grant
	bought := t.Go(func() { later = s.buy(other, next, 2, step) })
	if setup.Pause > 0 {
		t.Sleep(setup.Pause)
	} else {
		bought()
		t.Sleep(step)
	}
	pausing.Resume()
	late := pausing.Write(t.Context(), lockclient.Write{
		Tx: looked.Tx, Mode: setup.Policy.Stock, Stock: looked.Stock - 1, Version: looked.Version, Order: s.sale.Voucher, User: 1, Unique: true,
	})
	if !isRefusal(late) {
		s.Must(late)
	}
	t.Sleep(step)
	_ = pausing.Release(t.Context(), g.Lease) // fails if the lock was lost
	bought()
	t.Sleep(step)
	s.buy(other, last, 3, step)

	evidence := s.fullEvidence()
	t.Judge(evidence)
	t.Measure(i18n.F("buyer 2 was let in after buyer 1's process was stopped"), millis(time.Duration(later.At-stopped)), i18n.F("ms"))
	t.Measure(i18n.F("late writes refused"), lateRefusals(late), i18n.Text{})
}

// lateRefusals is 1 if the database refused the write.
func lateRefusals(err error) float64 {
	if isRefusal(err) {
		return 1
	}
	return 0
}
