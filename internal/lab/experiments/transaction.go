package experiments

import (
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/load"
	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// beforeCommit is how long a transaction takes to end.
const beforeCommit = 200 * time.Millisecond

// commitPolicy guards each user with a lock, and with nothing else.
func commitPolicy(placement voucher.Placement) voucher.Policy {
	p := voucher.DefaultPolicy()
	p.Placement = placement
	p.Unique = false
	p.LockWaitMS = patience.Milliseconds()
	p.Faults = []lock.Fault{pauseAt(lock.BeforeCommit, beforeCommit)}
	return p
}

// transactions are the experiments about the lock's place beside the transaction.
func transactions() lab.Set {
	const group = "Lock and transaction"
	return lab.Set{
		{
			ID: "release-before-commit", Group: group, Title: "Released before the commit: duplicates under a perfect lock",
			Sources: []lab.Source{
				{Document: "002", Section: "A flash sale as a use case"},
				{Document: "003", Section: "Where lock and unlock belong"},
			},
			Hypothesis: "A lock that is taken and released inside the transaction lets a user's second request look before the first one's order can be seen.",
			Arrangement: "A user sends two requests at the same moment. The lock is on the user and excludes as it should; " +
				"between its release and the commit there are 200 ms. No unique index.",
			Why: "A transactional method commits when it has returned, and a lock in its body is released before that. The user's second request gets the lock at this moment, properly and alone, " +
				"and asks whether the user has ordered. The first one's order is written and not committed, and what is not committed nobody else sees. So it " +
				"orders too. The lock did all that it promised; it only ended too early. What a lock guards ends with the commit, " +
				"and so the lock has to end after it.",
			Seen:    "a user's second request does not see the first one's order: two orders",
			Cure:    "Take the lock outside of the transaction, and release it after the commit; keep a unique index beneath.",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.DuplicateOrders},
			Partner: "commit-before-release",
			Needs:   realServers(),
			Setup:   lab.Setup{Policy: commitPolicy(voucher.InsideTx)},
			Scene:   oneUserTwice,
			K6: []string{
				"SCENARIO=duplicates", "LOCK=reentrant", "PLACEMENT=inside-tx", "UNIQUE=false", "LOCK_WAIT_MS=30000",
				"PAUSE_POINT=before-commit", "PAUSE_MS=100", "USERS=20", "REQUESTS_PER_USER=2",
			},
		},
		{
			ID: "commit-before-release", Group: group, Title: "Released after the commit: none",
			Sources: []lab.Source{
				{Document: "000", Section: "Implementing a distributed lock"},
				{Document: "003", Section: "Where lock and unlock belong"},
			},
			Hypothesis:  "A lock that is released after the commit lets the second request see the first one's order.",
			Arrangement: "The same two requests and the same 200 ms before each commit; the lock is taken before the transaction and released after it.",
			Why: "The second request waits until the first one's order is committed, because the lock is held until then. Then it asks, sees the order, and is told that the user has ordered already. " +
				"Nothing else was changed: the same lock, the same question, the same slow commit. In the listing of the first document this is why the service calls the transactional method through " +
				"its proxy from outside, with the lock around the call. It has a second use: nobody keeps a transaction, and with it a connection, open while " +
				"waiting for a lock.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.DuplicateOrders},
			Partner: "release-before-commit",
			Needs:   realServers(),
			Setup:   lab.Setup{Policy: commitPolicy(voucher.AroundTx)},
			Scene:   oneUserTwice,
			K6: []string{
				"SCENARIO=duplicates", "LOCK=reentrant", "PLACEMENT=around-tx", "UNIQUE=false", "LOCK_WAIT_MS=30000",
				"PAUSE_POINT=before-commit", "PAUSE_MS=100", "USERS=20", "REQUESTS_PER_USER=2",
			},
		},
	}
}

// oneUserTwice sends two requests of a user at the same moment.
func oneUserTwice(p *lab.Play, with lab.Setup) {
	const requests = 2
	sale := p.Sale(with.Policy, requests, p.API(with.Instances))
	sale.Observe()
	p.Load(sale.Rush(load.Load{Buyers: 1, Requests: requests}))
	p.Judge(sale.Evidence())
}
