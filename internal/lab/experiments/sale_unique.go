package experiments

import (
	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/load"
	"seckill/internal/lab/stage"
	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// impatientPolicy sells one to each user without a lock. Only the index may be in
// the way of a second order.
func impatientPolicy(unique bool) voucher.Policy {
	p := voucher.DefaultPolicy()
	p.Lock = "none"
	p.Unique = unique
	p.Faults = []lock.Fault{pauseAt(lock.CriticalSection, looking)}
	return p
}

func onePerUser() lab.Set {
	const group = "One order per user"
	return lab.Set{
		{
			ID: "no-unique-index", Group: group, Title: "Asking first whether the user has ordered: duplicates",
			Sources: []lab.Source{
				{Document: "002", Section: "A flash sale as a use case"},
				{Document: "000", Section: "Implementing a distributed lock"},
			},
			Hypothesis: "A program that asks whether a user has ordered, and then orders, sells several to a user whose requests arrive together.",
			Arrangement: "20 users press the button three times at the same moment. Each request asks for an earlier order, takes 50 ms, and writes its own; " +
				"there is no lock, and no unique index.",
			Why: "The question and the order are two steps. All three requests of a user ask before any of them has written, all are told that there is no order yet, " +
				"and all write one. It is the same gap as between reading the stock and writing it, and no condition on the stock closes it: the stock is " +
				"right to the last voucher, only the wrong people have them. A script that buys, a button without a debounce or a proxy that repeats a request brings it about. " +
				"A lock on user and voucher closes the gap while it works as it should; an index closes it always.",
			Seen:    "a user whose requests arrive together has several orders",
			Cure:    "A unique index on (voucher, user); a lock on the user in front of it spares the database the attempts.",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.DuplicateOrders},
			Partner: "unique-index-no-lock",
			Setup:   lab.Setup{Policy: impatientPolicy(false)},
			Scene:   everybodyThrice,
			K6:      []string{"SCENARIO=duplicates", "LOCK=none", "UNIQUE=false", "PAUSE_MS=50", "USERS=100", "REQUESTS_PER_USER=3"},
		},
		{
			ID: "unique-index-no-lock", Group: group, Title: "A unique index holds under the weakest lock",
			Sources: []lab.Source{
				{Document: "002", Section: "A flash sale as a use case"},
				{Document: "001", Section: "1. A lock in the database?"},
			},
			Hypothesis:  "With a unique index on voucher and user nobody gets two, though there is no lock at all.",
			Arrangement: "The same 20 users with three requests each, without a lock; the index is there.",
			Why: "The index is checked by the database at the moment of writing, where nobody can come between. Of a user's three orders the first one is written; the " +
				"others fail with a duplicate key, their transactions are rolled back together with what they took from the stock, and they are told that the user has ordered already. " +
				"An index cannot expire, be released by somebody else or be forgotten in a failover. That is why the default policy has it beneath whatever lock is on top: " +
				"the lock is for speed and manners, the index is for being right.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.DuplicateOrders},
			Partner: "no-unique-index",
			Setup:   lab.Setup{Policy: impatientPolicy(true)},
			Scene:   everybodyThrice,
			K6:      []string{"SCENARIO=duplicates", "LOCK=none", "UNIQUE=true", "PAUSE_MS=50", "USERS=100", "REQUESTS_PER_USER=3"},
		},
	}
}

// everybodyThrice sends three requests of each of 20 users at the same moment.
func everybodyThrice(p *lab.Play, with lab.Setup) {
	const users, each = 20, 3
	sale := p.Sale(with.Policy, users*each, p.API(with.Instances))
	p.Load(sale.Rush(load.Load{Buyers: users, Requests: each, AtOnce: users}))
	p.Judge(sale.Evidence())
}

// realServers are what several processes need to meet at.
func realServers() []stage.Server { return []stage.Server{stage.Redis, stage.Database} }
