package experiments

import (
	"errors"
	"slices"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/actor"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/stage"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// pauses are the experiments about a holder whose process stands still for longer
// than its lease.
func pauses() lab.Set {
	return slices.Concat(heldTooLong(), majorityAndPause(), sessionAndPause())
}

// pauseLease is what a lock lasts while its holder's process stands still: the
// watchdog's lease, or the session's timeout.
const pauseLease = 800 * time.Millisecond

// step is how long a buyer takes for each step who does not stand still.
const step = 100 * time.Millisecond

// pausedPolicy sells under a lock that is renewed, with nothing but the lock and what
// the stock strategy brings between the buyers.
func pausedPolicy(mechanism string, strategy voucher.Stock) lab.Setup {
	p := asking(mechanism, 0, patience)
	p.Scope, p.Stock = voucher.ScopeVoucher, strategy
	return lab.Setup{Policy: p, Watchdog: pauseLease}
}

// deafness is said where a holder is told of its loss and works on.
const deafness = " No program asks before a write whether it still has the lock, as none of those in the documents does."

// spoiled are the kinds of anomaly that a late write can be.
func spoiled() []finding.Kind {
	return []finding.Kind{finding.StaleWrites, finding.LostUpdates, finding.Oversold}
}

func heldTooLong() lab.Set {
	const group = "A paused holder"
	return lab.Set{
		{
			ID: "paused-holder", Group: group, Title: "A process stands still, and writes when it wakes",
			Sources: []lab.Source{
				{Document: "004", Section: "Locks that expire because of Java's stop-the-world garbage collection"},
				{Document: "003", Section: "Setting the lock's timeout right"},
			},
			Hypothesis: "A holder whose whole process stands still for longer than its lease writes over what the next holder has done meanwhile.",
			Arrangement: "Two vouchers, a lease of 800 ms that is renewed. Buyer 1 has the lock and has read the stock; then its process is stopped (SIGSTOP) until buyer 2, in another process, has bought and " +
				"gone home. Then it goes on (SIGCONT) and writes. Buyer 3 comes last." + deafness,
			Why: "A stopped process renews nothing, and does not notice: for buyer 1 no time has passed between reading the stock and writing it. Meanwhile the lease ran out, as it must, since nobody can tell a stopped process " +
				"from a dead one, and buyer 2 bought. Buyer 1 then writes what it computed long ago: one order is not counted any more, and buyer 3 gets a voucher that is none. " +
				"To ask for the lock once more before writing makes this rarer and no more than that, for the process can be stopped after the answer. No lock can help that only " +
				"its users know of. Who stores the data has to know of it, too.",
			Seen:    "two holders; after a pause the stock stays as if one had not been sold, and one more is sold than there was",
			Cure:    "A token that grows with every holder, checked by whoever stores the data (paused-holder-fenced); or a write with a condition.",
			Expect:  finding.Breaks,
			About:   spoiled(),
			Partner: "paused-holder-fenced",
			Needs:   []stage.Server{stage.Redis, stage.Database},
			Quiet:   true,
			Setup:   pausedPolicy("reentrant", voucher.StockUnguarded),
			Scene:   pausedHolder,
		},
		{
			ID: "paused-holder-fenced", Group: group, Title: "A token refuses the late write",
			Sources: []lab.Source{
				{Document: "004", Section: "Possible solutions"},
				{Document: "003", Section: "Martin's conclusion"},
			},
			Hypothesis: "When every write carries its holder's token and the database refuses one that is older than the newest it has seen, the late write is refused.",
			Arrangement: "The same buyers, vouchers, lease and pause. The lock gives each new holder a greater token, and the stock is taken WHERE fence_token <= the token." +
				deafness,
			Why: "There are two holders for a moment here as well: the pause is the same, and buyer 1 knows as little of it. But buyer 2's write has left its token in the row of the voucher, and buyer 1's is smaller. " +
				"Its UPDATE finds no row, its order is not written, and it is told why. The decision is made in one statement, by the one who has the data, so it does not matter how " +
				"long a write was on its way. The token need not be secret or random: it has only to grow with every holder. " +
				"What writes without a token is as unprotected as before.",
			Expect:  finding.Holds,
			About:   spoiled(),
			Partner: "paused-holder",
			Needs:   []stage.Server{stage.Redis, stage.Database},
			Quiet:   true,
			Setup:   pausedPolicy("fenced", voucher.StockFenced),
			Scene:   pausedHolder,
		},
	}
}

func majorityAndPause() lab.Set {
	return lab.Set{{
		ID: "red-paused-holder", Group: "A paused holder, on a majority of nodes", Title: "Three nodes do not help a holder that stands still",
		Sources: []lab.Source{
			{Document: "003", Section: "Martin's conclusion"},
			{Document: "003", Section: "The reply of Redis' author, Antirez"},
		},
		Hypothesis: "A lock on a majority of independent nodes does no more against a paused holder than a lock on one: its late write goes through.",
		Arrangement: "Three Redis nodes that know nothing of each other, a lease of 800 ms that is renewed on a majority of them; the same buyers, vouchers and pause as with one node." +
			deafness,
		Why: "A majority answers the question what happens when a node is lost. No node was lost here: all three did what they were asked to, and all three let the lease run out in time, since their holder did not " +
			"renew it. The algorithm checks that the acquisition was quick enough; what becomes of the holder after that it cannot check. Its author grants this: after the acquisition a pause harms every lock, ZooKeeper's too. " +
			"And it has no token that a database could compare, since each node's counter is its own. More servers make a lock easier to get, not safer to have.",
		Seen:    "two holders and a late write, with all nodes in good health",
		Cure:    "A token that the database checks (paused-holder-fenced), from a service that numbers its holders in one order.",
		Expect:  finding.Breaks,
		About:   spoiled(),
		Partner: "paused-holder-fenced",
		Needs:   []stage.Server{stage.Nodes, stage.Database},
		Quiet:   true,
		Setup:   pausedPolicy("red", voucher.StockUnguarded),
		Scene:   pausedHolder,
	}}
}

func sessionAndPause() lab.Set {
	const group = "A session that ends during a pause"
	return lab.Set{
		{
			ID: "zk-session-expired", Group: group, Title: "ZooKeeper ends the session of a paused process",
			Sources: []lab.Source{
				{Document: "001", Section: "Summary: how ZooKeeper makes a distributed lock"},
				{Document: "003", Section: "The reply of Redis' author, Antirez"},
			},
			Hypothesis: "A holder whose process stands still for longer than its ZooKeeper session writes over what the next holder has done meanwhile.",
			Arrangement: "The same buyers, vouchers and pause; the lock is an ephemeral node, and a session ends 800 ms after its last heartbeat." +
				deafness,
			Why: "There is no lease that could be too short for the work, and yet there is one: the session. A process that stands still sends no heartbeat; the servers agree that it is gone, delete its node, and let " +
				"buyer 2 in. All of them agree on who has the lock, and they are right. Only buyer 1 does not know, until its process wakes and hears from a server; what it has in its hands it writes all the same. " +
				"Consensus is about what the servers hold, and the write goes past them to a database that has not been asked. But ZooKeeper numbers " +
				"all that happens in one order, and such a number can be handed on.",
			Seen:    "as with a lease in Redis: two holders, and a write that comes too late",
			Cure:    "Use the number with which the node was created (its zxid) as a token, and have the database check it (zk-session-expired-fenced).",
			Expect:  finding.Breaks,
			About:   spoiled(),
			Partner: "zk-session-expired-fenced",
			Needs:   []stage.Server{stage.ZooKeeper, stage.Database},
			Quiet:   true,
			Setup:   pausedPolicy("zk-node", voucher.StockUnguarded),
			Scene:   pausedHolder,
		},
		{
			ID: "zk-session-expired-fenced", Group: group, Title: "The node's number is a token",
			Sources: []lab.Source{
				{Document: "003", Section: "Martin's conclusion"},
				{Document: "001", Section: "Summary: how ZooKeeper makes a distributed lock"},
			},
			Hypothesis:  "With the zxid of the lock's node as a token that the database checks, the write of a holder whose session has ended is refused.",
			Arrangement: "The same buyers, vouchers, session and pause; the stock is taken WHERE fence_token <= the zxid of the holder's node." + deafness,
			Why: "ZooKeeper gives every change the next number, over all keys and all sessions. The node of buyer 2 was made later than that of buyer 1, so its number is greater, and the database has seen it by the time the late write arrives. " +
				"The write finds no row to change and is refused. Nothing had to be added to the lock for that: the number comes with the reply that " +
				"created the node. It is what the critic of Redlock asks for, and the reason for which he recommends a system with consensus: not that it " +
				"prevents the second holder, but that it can say which one came later.",
			Expect:  finding.Holds,
			About:   spoiled(),
			Partner: "zk-session-expired",
			Needs:   []stage.Server{stage.ZooKeeper, stage.Database},
			Quiet:   true,
			Setup:   pausedPolicy("zk-node", voucher.StockFenced),
			Scene:   pausedHolder,
		},
	}
}

// pausedHolder stops buyer 1's process between reading the stock and writing it, until
// buyer 2 of another process has got the lock, bought and gone. Buyer 3 comes last.
func pausedHolder(p *lab.Play, with lab.Setup) {
	s := openShop(p, with, 2)
	pausing, other := s.hire("shop-1"), s.hire("shop-2", steady)
	s.observe()

	const first, next, last = "buyer 1", "buyer 2", "buyer 3"
	g, err := s.enter(pausing, s.ask(first))
	s.must(err)
	looked, err := pausing.Read(p.Context(), actor.Read{Voucher: s.sale.Voucher, Lease: g.Lease, Deaf: true})
	s.must(err)
	p.Pause(step)
	pausing.Pause()
	stopped := time.Now().UnixNano()
	later := s.buy(other, next, 2, step)
	p.Pause(step)
	pausing.Resume()
	late := pausing.Write(p.Context(), actor.Write{
		Tx: looked.Tx, Mode: with.Policy.Stock, Stock: looked.Stock - 1, Order: s.sale.Voucher, User: 1, Unique: true,
	})
	if late != nil && !errors.Is(late, order.ErrStale) {
		s.must(late)
	}
	p.Pause(step)
	_ = pausing.Release(p.Context(), g.Lease) // a holder that lost it has nothing to give
	p.Pause(step)
	s.buy(other, last, 3, step)

	evidence := s.whole()
	p.Judge(evidence)
	p.Measure("buyer 2 was let in after buyer 1's process was stopped", millis(time.Duration(later.At-stopped)), "ms")
	p.Measure("late writes refused", refusals(late), "")
}

// refusals is how many of one write were.
func refusals(err error) float64 {
	if errors.Is(err, order.ErrStale) {
		return 1
	}
	return 0
}
