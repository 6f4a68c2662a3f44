package experiments

import (
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/load"
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
		text: "transaction", scenario: oneUserTwice, needs: realServers(), cases: []setupCase{
			{id: "release-before-commit", setup: slowCommit(voucher.InsideTx), breaks: kinds{finding.DuplicateOrders}},
			{id: "commit-before-release", setup: slowCommit(voucher.AroundTx), holds: kinds{finding.DuplicateOrders}},
		}, parameters: []lab.Parameter{
			pauseOf("pause", "how long a transaction takes to commit", lock.BeforeCommit, false, 3*time.Second),
		},
	}}
}

// oneUserTwice sends two requests of a user at the same moment.
func oneUserTwice(t *lab.Trial, setup lab.Setup) {
	const requests = 2
	sale := t.Sale(setup.Policy, requests, t.API(setup.Instances))
	sale.Observe()
	t.Load(sale.SendLoad(load.Load{Buyers: 1, Requests: requests}))
	t.Judge(sale.Evidence())
}
