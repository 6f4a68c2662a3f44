package experiments

import (
	"cmp"
	"slices"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/voucher"
)

const (
	// givenLease is the lease of a setup that sets one, workWatchdog the watchdog timeout of
	// one that does not.
	givenLease   = 600 * time.Millisecond
	workWatchdog = time.Second
	// longWork is longer than both of them, nextWork shorter.
	longWork = 1500 * time.Millisecond
	nextWork = 450 * time.Millisecond
)

// workPolicy sells under a lock that is the only protection.
func workPolicy(mechanism string, ttl time.Duration) lab.Setup {
	p := policyFor(mechanism, ttl, patience)
	p.Scope, p.Stock = voucher.ScopeVoucher, voucher.StockUnguarded
	return lab.Setup{Policy: p, Watchdog: workWatchdog}
}

// leases are the experiments about work that takes longer than its lease.
func leases() []comparison {
	late := kinds{finding.Overlaps, finding.StaleWrites, finding.LostUpdates}
	return []comparison{{
		text: "long-work", scenario: longHolder, needs: []testbed.Server{testbed.Redis, testbed.Stock}, quiet: true, cases: []setupCase{
			{id: "lua-lease-too-short", setup: workPolicy("lua", givenLease), breaks: late},
			{
				id: "given-lease-no-watchdog", setup: workPolicy("reentrant", givenLease),
				breaks: kinds{finding.StaleWrites, finding.LostUpdates},
			},
			{id: "watchdog-keeps-long-holder", setup: workPolicy("reentrant", 0), holds: append(late, finding.Oversold)},
		}, parameters: []lab.Parameter{
			locks("naive", "uuid", "lua", "reentrant", "fair", "rw", "fenced"), lease(100*time.Millisecond, 5*time.Second),
			work(i18n.F("how long buyer 1 works"), longWork, 10*time.Millisecond, 5*time.Second),
		},
	}}
}

// longHolder makes buyer 1 work for longer than its lease between reading the stock and
// writing it, while buyer 2 of another process waits for the lock.
func longHolder(t *lab.Trial, setup lab.Setup) {
	s := newSellers(t, setup, 2)
	slow, other := s.start("process-1"), s.start("process-2")
	s.observe()

	const first, next = "buyer 1", "buyer 2"
	g := s.take(slow, s.request(first))
	var sold lockclient.Sold
	works := t.Go(func() {
		var err error
		sold, err = slow.Sell(t.Context(), lockclient.Sell{
			Voucher: s.sale.Voucher, User: 1, Lease: g.Lease, IgnoreLoss: true,
			Mode: setup.Policy.Stock, Unique: true, Pause: cmp.Or(setup.Work, longWork),
		})
		s.Must(err)
		_ = slow.Release(t.Context(), g.Lease) // fails if the lock was lost
	})
	t.Until("buyer 1 has read the stock", func() bool {
		return slices.ContainsFunc(slow.Events(), func(e eventlog.Event) bool { return e.Kind == eventlog.Read })
	})
	later := s.buy(other, next, 2, nextWork)
	works()

	evidence := s.fullEvidence()
	t.Judge(evidence)
	t.Measure(i18n.F("buyer 1's order was written after its grant"), millis(time.Duration(sold.At-g.At)), i18n.F("ms"))
	t.Measure(i18n.F("buyer 2 was let in after buyer 1's grant"), millis(time.Duration(later.At-g.At)), i18n.F("ms"))
}
