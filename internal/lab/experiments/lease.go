package experiments

import (
	"slices"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/actor"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/stage"
	"seckill/internal/trace"
	"seckill/internal/voucher"
)

const (
	// givenLease is the lease where one is given, workWatchdog where none is.
	givenLease   = 600 * time.Millisecond
	workWatchdog = time.Second
	// longWork is longer than either of them, nextWork shorter.
	longWork = 1500 * time.Millisecond
	nextWork = 450 * time.Millisecond
)

// workPolicy sells under a lock, with nothing else between the buyers.
func workPolicy(mechanism string, ttl time.Duration) lab.Setup {
	p := asking(mechanism, ttl, patience)
	p.Scope, p.Stock = voucher.ScopeVoucher, voucher.StockUnguarded
	return lab.Setup{Policy: p, Watchdog: workWatchdog}
}

// leases are the experiments about work that takes longer than its lease.
func leases() lab.Set { return slices.Concat(fixedLease(), renewedLease()) }

// leaseGroup has a lease of each kind.
const leaseGroup = "Work that outlasts its lease"

func fixedLease() lab.Set {
	return lab.Set{
		{
			ID: "lua-lease-too-short", Group: leaseGroup, Title: "The release is right, and the lease is too short: two holders",
			Sources: []lab.Source{
				{Document: "000", Section: "What Redisson does"},
				{Document: "002", Section: "Problems of an ordinary Redis lock"},
				{Document: "003", Section: "Setting the lock's timeout right"},
			},
			Hypothesis: "A lock that is released as it should be, by a script that compares first, still has two holders when the work takes longer than the lease.",
			Arrangement: "Two vouchers. Buyer 1 takes the lock with a lease of 600 ms, reads the stock, works for 1.5 s and writes. " +
				"Buyer 2, in another process, waits for the lock meanwhile.",
			Why: "The lease was a guess of how long the work may take, and this time it took longer. Redis dropped the key when the 600 ms were over, which is all that it was told to do; buyer 2 got in, properly, " +
				"read a stock that buyer 1 was about to change, and wrote. Then buyer 1 wrote what it had computed from the old one. Its release does no harm, because it finds the key gone; " +
				"and that is the first moment in which buyer 1 could learn anything. Longer leases make it rarer, and every death costlier. " +
				"The next mechanism does not guess: it asks for more time while it needs some.",
			Seen:    "under load, or after a slow answer from elsewhere, two orders for one voucher",
			Cure:    "Renew the lease while the holder lives (watchdog-keeps-long-holder), and have the holder told when that fails.",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.Overlaps, finding.StaleWrites, finding.LostUpdates},
			Partner: "watchdog-keeps-long-holder",
			Needs:   []stage.Server{stage.Redis, stage.Database},
			Quiet:   true,
			Setup:   workPolicy("lua", givenLease),
			Scene:   longHolder,
			K6: []string{
				"LOCK=lua", "SCOPE=voucher", "STOCK_MODE=unguarded", "LOCK_WAIT_MS=30000", "LOCK_TTL_MS=100",
				"PAUSE_MS=400", "PAUSE_PROBABILITY=0.1", "USERS=400",
			},
		},
		{
			ID: "given-lease-no-watchdog", Group: leaseGroup, Title: "A given lease switches the watchdog off",
			Sources: []lab.Source{
				{Document: "001", Section: "When the watchdog works at all"},
				{Document: "003", Section: "Watch Dog: extending automatically"},
				{Document: "003", Section: "Released automatically after a timeout"},
			},
			Hypothesis: "The lock with a watchdog does not renew a lease that its caller has given, so that longer work loses the lock and writes too late.",
			Arrangement: "The same buyers, vouchers and 1.5 s of work. The lock is the one with the watchdog, and the caller asks for a lease of 600 ms." +
				deafness,
			Why: "Whoever gives a lease says when the lock is to end, and gets what was asked for: nothing renews it. It looks like a harmless detail, a number that was " +
				"filled in because there was a parameter for it, and it takes away the one thing for which the lock was chosen. Buyer 2 gets in after 600 ms, and buyer 1's write comes over what " +
				"buyer 2 has sold. Here the holder is told in time, as the picture shows, and work that listens would have ended then, with an error in place of an order. The programs of the documents " +
				"are told nothing. A lease is to be given only where the work is to end with it.",
			Seen:    "the lock with a watchdog loses its holder in the middle of the work, and a write comes too late",
			Cure:    "Give no lease, and leave it to the watchdog (watchdog-keeps-long-holder); where one is given, work under the lease's context.",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.StaleWrites, finding.LostUpdates},
			Partner: "watchdog-keeps-long-holder",
			Needs:   []stage.Server{stage.Redis, stage.Database},
			Quiet:   true,
			Setup:   workPolicy("reentrant", givenLease),
			Scene:   longHolder,
		},
	}
}

func renewedLease() lab.Set {
	return lab.Set{
		{
			ID: "watchdog-keeps-long-holder", Group: leaseGroup, Title: "A lease that is renewed lasts as long as the work",
			Sources: []lab.Source{
				{Document: "001", Section: "3. The best plan: a Redisson lock, for leases that nobody can guess"},
				{Document: "000", Section: "Retrying the lock, and the watchdog mechanism"},
				{Document: "003", Section: "Watch Dog: extending automatically"},
			},
			Hypothesis:  "With a watchdog timeout of 1 s a holder keeps its lock through 1.5 s of work, and the next one gets in after it.",
			Arrangement: "The same buyers, vouchers and work. No lease is given: it is 1 s, and renewed every third of that while buyer 1's process lives.",
			Why: "When a third of the lease is over the process asks Redis to let it run for a second from now, and again a third later, until the release. Redis grants it only while the key is still this holder's. " +
				"So the lease is no longer about the work, which may take as long as it takes, but about the process: it ends a second after the last sign of life. " +
				"Buyer 2 waits until buyer 1 has gone, is woken by the release, and reads what buyer 1 has written. " +
				"What is left are the cases in which a living process cannot renew: when it stands still, and when it cannot reach Redis.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.Overlaps, finding.StaleWrites, finding.LostUpdates, finding.Oversold},
			Partner: "lua-lease-too-short",
			Needs:   []stage.Server{stage.Redis, stage.Database},
			Quiet:   true,
			Setup:   workPolicy("reentrant", 0),
			Scene:   longHolder,
			K6: []string{
				"LOCK=reentrant", "SCOPE=voucher", "STOCK_MODE=unguarded", "LOCK_WAIT_MS=30000",
				"PAUSE_MS=400", "PAUSE_PROBABILITY=0.1", "USERS=400",
			},
		},
	}
}

// longHolder has buyer 1 work for longer than its lease between reading the stock and
// writing it, while buyer 2 of another process waits for the lock.
func longHolder(p *lab.Play, with lab.Setup) {
	s := openShop(p, with, 2)
	slow, other := s.hire("shop-1"), s.hire("shop-2")
	s.observe()

	const first, next = "buyer 1", "buyer 2"
	g, err := s.enter(slow, s.ask(first))
	s.must(err)
	var sold actor.Sold
	works := p.Go(func() {
		var err error
		sold, err = slow.Sell(p.Context(), actor.Sell{
			Voucher: s.sale.Voucher, User: 1, Lease: g.Lease, Deaf: true,
			Mode: with.Policy.Stock, Unique: true, Pause: longWork,
		})
		s.must(err)
		_ = slow.Release(p.Context(), g.Lease) // a holder that lost it has nothing to give
	})
	p.Until("buyer 1 has read the stock", func() bool {
		return slices.ContainsFunc(slow.Events(), func(e trace.Event) bool { return e.Kind == trace.Read })
	})
	later := s.buy(other, next, 2, nextWork)
	works()

	evidence := s.whole()
	p.Judge(evidence)
	p.Measure("buyer 1's order was written after its grant", millis(time.Duration(sold.At-g.At)), "ms")
	p.Measure("buyer 2 was let in after buyer 1's grant", millis(time.Duration(later.At-g.At)), "ms")
}
