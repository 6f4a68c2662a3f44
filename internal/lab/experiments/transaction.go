package experiments

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/load"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/lab/witness"
	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// beforeCommit is how long a transaction takes to commit.
const beforeCommit = 200 * time.Millisecond

// slowCommit guards each user with a lock, and with nothing else.
func slowCommit(placement voucher.Placement) lab.Setup {
	p := voucher.DefaultPolicy()
	p.Placement = placement
	p.Unique = false
	p.LockWaitMS = patience.Milliseconds()
	p.Faults = []lock.Fault{pauseAt(lock.BeforeCommit, beforeCommit)}
	return lab.Setup{Policy: p}
}

// transactions are the experiments about the order of release and commit.
func transactions() []comparison {
	return []comparison{{
		text: "transaction", scenario: oneUserTwice, cases: []setupCase{
			{id: "release-before-commit", setup: slowCommit(voucher.InsideTx), breaks: kinds{finding.DuplicateOrders}},
			{id: "commit-before-release", setup: slowCommit(voucher.AroundTx), holds: kinds{finding.DuplicateOrders}},
		}, parameters: []lab.Parameter{
			pauseOf("pause", i18n.F("how long a transaction takes to commit"), lock.BeforeCommit, false, 3*time.Second),
		},
	}, {
		text: "call-on-this", scenario: killedBetweenStatements, needs: []testbed.Server{testbed.Redis, testbed.Stock}, quiet: true, cases: []setupCase{
			{id: "call-on-this", setup: listed(flawed.CallOnThis, onSale()), breaks: kinds{finding.LostStock}},
			{id: "call-through-proxy", setup: onSale(), holds: kinds{finding.LostStock, finding.Oversold}},
		}, parameters: []lab.Parameter{stock(proxyStock, 1, 10)},
	}}
}

const (
	// proxyStock is on sale, one unit for each of two buyers.
	proxyStock = 2
	// betweenStatements is how long buyer 1 takes from one statement to the next.
	betweenStatements = 5 * time.Second
)

// onSale sells by a conditional statement, under the lock of the documents.
func onSale() lab.Setup {
	p := policyFor("lua", givenLease, patience)
	p.Scope = voucher.ScopeVoucher
	return lab.Setup{Policy: p}
}

// killedBetweenStatements kills buyer 1's process when it has taken a unit from the stock, and
// before it inserts the order. Then two others come.
func killedBetweenStatements(t *lab.Trial, setup lab.Setup) {
	s := newSellers(t, setup, int64(cmp.Or(setup.Stock, proxyStock)))
	process, other := s.start("process-1"), s.start("process-2")
	s.observe()

	g := s.take(process, s.request(firstBuyer))
	apart, taken := setup.Program == flawed.CallOnThis, eventlog.Write
	if apart {
		taken = eventlog.Committed
	}
	writes := t.Go(func() {
		if err := process.Write(t.Context(), lockclient.Write{
			Voucher: s.sale.Voucher, Lease: g.Lease, IgnoreLoss: true, Mode: setup.Policy.Stock,
			Order: s.sale.Voucher, User: 1, Unique: true, Gap: betweenStatements, Apart: apart,
		}); !errors.Is(err, lockclient.ErrDead) {
			s.Must(err)
		}
	})
	t.Until("buyer 1 to take one from the stock", func() bool {
		return slices.ContainsFunc(process.Events(), func(e eventlog.Event) bool { return e.Kind == taken })
	})
	process.Kill()
	writes()
	s.buy(other, secondBuyer, 2, step)
	last := s.buy(other, "buyer 3", 3, step)

	evidence := s.fullEvidence()
	lost := max(0, evidence.Audit.InitialStock-evidence.Audit.Stock-evidence.Audit.Orders)
	t.Found(finding.LostStock, int(lost))
	t.Measure(i18n.F("sold"), float64(evidence.Audit.Orders), i18n.F("of %d", evidence.Audit.InitialStock))
	death := evidence.Deaths[0].At
	story := witness.Story{
		Key: s.key, Who: []string{firstBuyer, secondBuyer, "buyer 3"}, From: g.Asked, To: last.At,
		Summary: i18n.F("Buyer 1's process takes one from the stock, and is killed at %s, before it has inserted the order. The database takes the first statement back. Units sold to the others: %d of %d.",
			witness.At(death), evidence.Audit.Orders, evidence.Audit.InitialStock),
	}
	if lost > 0 {
		story.Kind = finding.LostStock
		story.Summary = i18n.F("Buyer 1's process takes one from the stock, and is killed at %s, before it has inserted the order. The first statement is committed. Units sold: %d of %d; left: %d; gone: %d.",
			witness.At(death), evidence.Audit.Orders, evidence.Audit.InitialStock, evidence.Audit.Stock, lost)
	}
	t.Witness(witness.Tell(evidence, story))
	t.Judge(evidence)
}

// oneUserTwice sends two requests of a user at the same moment.
func oneUserTwice(t *lab.Trial, setup lab.Setup) {
	const requests = 2
	sale := t.Sale(setup.Policy, requests, t.API(setup.Instances))
	sale.Observe()
	t.Load(sale.SendLoad(load.Load{Buyers: 1, Requests: requests}))
	t.Judge(sale.Evidence())
}
