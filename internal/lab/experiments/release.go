package experiments

import (
	"slices"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// releases are the experiments about whose lock a release deletes.
func releases() lab.Set {
	return slices.Concat(blindRelease(), sameNumber(), betweenLookAndDelete(), wrongKey())
}

// leased is a policy with a fixed lease.
func leased(lease time.Duration, p voucher.Policy) voucher.Policy {
	p.LockTTLMS = lease.Milliseconds()
	return p
}

// The chain: every buyer works for less than the lease, but for the late one. The
// late one comes back in the middle of its successor's work, and from then on there
// are two inside, each of whom deletes the other's lock: half a turn apart, which
// leaves every step more than a tenth of a second to happen in.
const (
	chainLease = 400 * time.Millisecond
	chainWork  = 300 * time.Millisecond
	chainLate  = 250 * time.Millisecond // on top of the work, for one buyer in lateOdds
)

// lateOdds: one buyer in so many is late.
const lateOdds = 20

// chainPolicy has one buyer in twenty pause past its lease.
func chainPolicy(mechanism string) voucher.Policy {
	late := pauseAt(lock.CriticalSection, chainLate)
	late.Probability = 1.0 / lateOdds
	return leased(chainLease, openPolicy(mechanism, pauseAt(lock.CriticalSection, chainWork), late))
}

func blindRelease() lab.Set {
	const group = "Releasing without looking"
	return lab.Set{
		{
			ID: "naive-wrong-release", Group: group, Title: "Deleting the next one's lock, and so on down the line",
			Sources: []lab.Source{
				{Document: "000", Section: "Deleting somebody else's lock by mistake"},
				{Document: "001", Section: "2. The newer SET command: lock and expiry in one step"},
				{Document: "003", Section: "Releasing a lock that is not one's own"},
			},
			Hypothesis: "One holder that is later than its lease deletes the next holder's lock, that one the lock of the one after it, and so on for as long as somebody waits.",
			Arrangement: "The lease is 400 ms and the work takes 300 ms. One buyer in twenty takes 550 ms: such a one comes first, and five more wait behind it. " +
				"The release is DEL, without looking.",
			Why: "The first buyer's lease runs out while it works, and the second gets in: two at a time, for 150 ms. The worse part follows. The first one ends its work and deletes the key, " +
				"which is the second one's lock by now. The third gets in at once. The second one ends, well within its own lease, and deletes the third one's lock; " +
				"and so on. One late holder is enough: nobody after it did anything wrong, and yet there are always two inside, until the queue is empty. " +
				"The next mechanism writes into the key whose it is, and looks before it deletes.",
			Seen:    "one late holder, and from then on two are inside and delete each other's lock",
			Cure:    "Store a value that is nobody else's, and delete only that; in one step (lua-atomic-release).",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.WrongReleases},
			Partner: "uuid-looks-first",
			Setup:   lab.Setup{Policy: chainPolicy("naive")},
			Scene:   lateHolderAndQueue,
			K6: []string{
				"LOCK=naive", "SCOPE=voucher", "STOCK_MODE=unguarded", "LOCK_WAIT_MS=30000", "LOCK_TTL_MS=100",
				"PAUSE_MS=400", "PAUSE_PROBABILITY=0.1", "USERS=400",
			},
		},
		{
			ID: "uuid-looks-first", Group: group, Title: "A late holder finds another's value, and leaves it",
			Sources: []lab.Source{
				{Document: "000", Section: "Solving the wrong deletion"},
				{Document: "003", Section: "Releasing a lock that is not one's own"},
			},
			Hypothesis:  "When the release deletes the key only if it holds the releaser's own value, the late holder harms nobody's lock, though it still overlaps with its successor.",
			Arrangement: "The same lease, work, late first buyer and queue of five. The value is a UUID with a number, which the release compares first.",
			Why: "The late buyer comes back, finds the second one's value under the key, and deletes nothing; its release says that the lock was lost. The second one's lock stays until it gives " +
				"it back, and the third waits for that: the chain does not begin. What remains is the overlap itself. From the end of the lease to the end of the late work " +
				"two buyers were inside, both read the same stock, and one write was lost. Looking before deleting mends what a late holder does to others. That there is a late " +
				"holder at all is for a lease that is renewed, and its write for a fencing token.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.WrongReleases},
			Partner: "naive-wrong-release",
			Setup:   lab.Setup{Policy: chainPolicy("uuid")},
			Scene:   lateHolderAndQueue,
		},
	}
}

// In this scene all work ends within its lease. Only the way from the work's end to
// the release is long, for one buyer in lateOdds.
const (
	numberLease = 600 * time.Millisecond
	numberWork  = 350 * time.Millisecond
	numberLate  = 400 * time.Millisecond
)

func lateReleasePolicy(mechanism string) voucher.Policy {
	late := pauseAt(lock.BeforeRelease, numberLate)
	late.Probability = 1.0 / lateOdds
	return leased(numberLease, openPolicy(mechanism, pauseAt(lock.CriticalSection, numberWork), late))
}

func sameNumber() lab.Set {
	const group = "A number that two processes share"
	return lab.Set{
		{
			ID: "thread-id-two-processes", Group: group, Title: "The thread's number: two processes count alike",
			Sources: []lab.Source{
				{Document: "000", Section: "Solving the wrong deletion"},
				{Document: "001", Section: "2. The newer SET command: lock and expiry in one step"},
			},
			Hypothesis: "A value that is unique in its process only lets a late release delete the lock that another process holds under the same number.",
			Arrangement: "Two processes that have given out equally many numbers. The lease is 600 ms and the work takes 350 ms. One buyer in twenty releases 400 ms after its work: such " +
				"a one comes first, a buyer of the other process waits for it, and a third one comes when the second is in.",
			Why: "Every process numbers its threads from 1, so that the number of the holder in the one process is, sooner or later, that of a holder in the other. The first buyer is done in time, " +
				"but its release is late: the lease has run out, and a buyer of the other process holds the key. The release looks, finds its own number, and deletes. " +
				"The third buyer gets in and reads a stock that the second is about to write. The comparison is sound; what it compares is not the holder. " +
				"It helps only against threads of the same process, where a mutex would have done.",
			Seen:    "a late release deletes the lock of another process that has the same number",
			Cure:    "Put something before the number that no other process has, such as a UUID.",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.WrongReleases},
			Partner: "uuid-two-processes",
			Needs:   realServers(),
			Setup:   lab.Setup{Policy: lateReleasePolicy("thread-id"), Instances: 2},
			Scene:   lateReleaseElsewhere,
			K6: []string{
				"LOCK=thread-id", "SCOPE=voucher", "STOCK_MODE=unguarded", "LOCK_WAIT_MS=30000", "LOCK_TTL_MS=700", "VUS=4", "USERS=40", "STOCK=40", "INSTANCES=2",
				`FAULTS=[{"point":"critical-section","pause_ms":250},{"point":"before-release","pause_ms":600}]`,
			},
		},
		{
			ID: "uuid-two-processes", Group: group, Title: "A UUID before the number: no two are alike",
			Sources:     []lab.Source{{Document: "000", Section: "Solving the wrong deletion"}},
			Hypothesis:  "With a value that no other process can have, the late release recognises that the lock is another's, and leaves it.",
			Arrangement: "The same two processes, lease, work and late release; the value is a random UUID followed by a number.",
			Why: "The late release looks, finds a value that is not its own, and deletes nothing. The second buyer keeps its lock until it gives it back, and the third comes in " +
				"then. Since all of the work here ends within its lease, the sale is right too: each buyer reads the stock after the one before it has written. " +
				"The random part need not be secret; it has only to be long enough that no two processes draw the same one, " +
				"also after a restart. Looking and deleting are still two steps, which the next experiment takes apart.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.WrongReleases},
			Partner: "thread-id-two-processes",
			Needs:   realServers(),
			Setup:   lab.Setup{Policy: lateReleasePolicy("uuid"), Instances: 2},
			Scene:   lateReleaseElsewhere,
			K6: []string{
				"LOCK=uuid", "SCOPE=voucher", "STOCK_MODE=unguarded", "LOCK_WAIT_MS=30000", "LOCK_TTL_MS=700", "VUS=4", "USERS=40", "STOCK=40", "INSTANCES=2",
				`FAULTS=[{"point":"critical-section","pause_ms":250},{"point":"before-release","pause_ms":600}]`,
			},
		},
	}
}
