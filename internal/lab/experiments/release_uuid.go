package experiments

import (
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// The gap: a buyer looks at its lock half a lease before it ends, and deletes it half
// its successor's work later.
const (
	gapLease = 600 * time.Millisecond
	gapWork  = 300 * time.Millisecond
	gap      = 450 * time.Millisecond
)

func gapPolicy(mechanism string) voucher.Policy {
	return leased(gapLease, openPolicy(mechanism,
		pauseAt(lock.CriticalSection, gapWork), pauseAt(lock.BetweenCompareAndDelete, gap)))
}

func betweenLookAndDelete() lab.Set {
	const group = "Between the look and the deletion"
	return lab.Set{
		{
			ID: "uuid-between-compare-and-delete", Group: group, Title: "The lease runs out between GET and DEL",
			Sources: []lab.Source{
				{Document: "000", Section: "The atomicity problem"},
				{Document: "002", Section: "The atomicity problem"},
			},
			Hypothesis:  "A holder that pauses between comparing and deleting deletes the lock of whoever got it in the meantime, however unique its value is.",
			Arrangement: "The lease is 600 ms and the work takes 300 ms. Between the GET that says that the lock is one's own and the DEL there is a pause of 450 ms. Three buyers, one behind the other.",
			Why: "The first buyer is done in time, looks, and finds its own value: the answer is true at that moment. Then it stands still, as a process does when its garbage is " +
				"collected or its packet is sent again. The lease runs out, the second buyer gets the key and begins its work. The DEL goes out, with the first one's answer behind it and the second one's lock before it, " +
				"and the third buyer is in. No value can help, since what is compared is not what is deleted. The server has to do both in one step, " +
				"which is what a script does.",
			Seen:    "a release deletes what it did not compare: the next one's lock",
			Cure:    "Compare and delete in one script on the server.",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.WrongReleases},
			Partner: "lua-atomic-release",
			Setup:   lab.Setup{Policy: gapPolicy("uuid")},
			Scene:   threeInARow,
			K6: []string{
				"LOCK=uuid", "SCOPE=voucher", "STOCK_MODE=unguarded", "LOCK_WAIT_MS=30000", "LOCK_TTL_MS=300", "USERS=400",
				`FAULTS=[{"point":"between-compare-and-delete","pause_ms":330,"probability":0.2},{"point":"critical-section","pause_ms":20}]`,
			},
		},
		{
			ID: "lua-atomic-release", Group: group, Title: "Compared and deleted in one script: no gap",
			Sources: []lab.Source{
				{Document: "000", Section: "Lua scripts"},
				{Document: "002", Section: "Using Lua scripts"},
				{Document: "003", Section: "Releasing a lock that is not one's own"},
			},
			Hypothesis:  "When the server compares and deletes in one step, a release deletes the releaser's own lock or none.",
			Arrangement: "The same lease, work and buyers, and the same plan of pauses. The release is a script, in which there is no place for the second pause.",
			Why: "Redis runs a script from its first to its last command without doing anything else. Between the comparison and the deletion no lease can run out and nobody can get in; a process that " +
				"pauses does so before the script or after it, and both are harmless to others. Each buyer's lock goes with its own release, 300 ms after it was taken, and " +
				"the next one comes in then. The release is right now, and stays right in every mechanism from here on. The lease is still a guess of how " +
				"long the work may take: the next experiments are about holders that take longer.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.WrongReleases},
			Partner: "uuid-between-compare-and-delete",
			Setup:   lab.Setup{Policy: gapPolicy("lua")},
			Scene:   threeInARow,
			K6: []string{
				"LOCK=lua", "SCOPE=voucher", "STOCK_MODE=unguarded", "LOCK_WAIT_MS=30000", "LOCK_TTL_MS=300", "USERS=400",
				`FAULTS=[{"point":"between-compare-and-delete","pause_ms":330,"probability":0.2},{"point":"critical-section","pause_ms":20}]`,
			},
		},
	}
}

const (
	wrongKeyLease = 600 * time.Millisecond
	wrongKeyWork  = 100 * time.Millisecond
)

// wrongKeyPolicy is one under which buyers try once.
func wrongKeyPolicy(mechanism string) voucher.Policy {
	p := openPolicy(mechanism, pauseAt(lock.CriticalSection, wrongKeyWork))
	p.LockWaitMS = 0
	return leased(wrongKeyLease, p)
}

func wrongKey() lab.Set {
	const group = "The release that looks in the wrong place"
	return lab.Set{
		{
			ID: "uuid-wrong-key", Group: group, Title: "The comparison reads the wrong key: locked out until the lease ends",
			Sources:    []lab.Source{{Document: "000", Section: "Solving the wrong deletion"}},
			Hypothesis: "A release that looks under its own value, and not under the lock's key, never releases: everybody is locked out until the lease ends.",
			Arrangement: "One buyer buys, which takes 100 ms under a lease of 600 ms, and has its answer. Then two others try, and come again every 50 ms until they have bought. " +
				"The release asks for GET of the value where it means GET of the key, as the published listing does.",
			Why: "Under the name that the release asks for there is nothing. Nothing is not the releaser's own value, so it concludes that the lock is somebody else's, and leaves it, every time. " +
				"The code compiles, runs and sells; a test that takes the lock once is content. But after each order the voucher is shut until the lease is over, " +
				"and each buyer that comes meanwhile is turned away by a holder that has long gone home. With the listing's lease of 1200 seconds that is twenty minutes for every order. " +
				"A test that takes the same lock twice finds it.",
			Seen:    "after each order everybody is turned away until the lease ends",
			Cure:    "Compare what stands under the lock's key; and look at what a release says: here it is that the lock had expired.",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.LockedOut},
			Partner: "uuid-right-key",
			Setup:   lab.Setup{Policy: wrongKeyPolicy("uuid-wrong-key")},
			Scene:   oneAfterTheOther,
			K6:      []string{"LOCK=uuid-wrong-key", "SCOPE=voucher", "STOCK_MODE=unguarded", "LOCK_WAIT_MS=2000", "USERS=400"},
		},
		{
			ID: "uuid-right-key", Group: group, Title: "The comparison reads the lock's key: free at once",
			Sources:     []lab.Source{{Document: "000", Section: "Solving the wrong deletion"}},
			Hypothesis:  "A release that compares what stands under the lock's key frees it as soon as the work is done.",
			Arrangement: "The same three buyers, lease and work; the release asks for GET of the key.",
			Why: "The release finds its own value under the key and deletes it. The next buyer, who comes after the first one has its answer, finds the lock free, and so does everybody after it. " +
				"The lease of 600 ms plays no part: it is there for holders that die, and not for those who go home. The difference to the listing is one word. " +
				"That the slip could live is owed to its silence: the unlock of the listing returns nothing. Here a release that found the lock gone or " +
				"another's says so with a typed error, which the service logs.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.LockedOut},
			Partner: "uuid-wrong-key",
			Setup:   lab.Setup{Policy: wrongKeyPolicy("uuid")},
			Scene:   oneAfterTheOther,
			K6:      []string{"LOCK=uuid", "SCOPE=voucher", "STOCK_MODE=unguarded", "LOCK_WAIT_MS=2000", "USERS=400"},
		},
	}
}
