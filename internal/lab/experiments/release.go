package experiments

import (
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/testbed"
	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// releases are the experiments about releases that delete the wrong lock.
func releases() []comparison {
	return []comparison{
		{text: "blind-release", scenario: lateHolderAndQueue, stretches: true, cases: []setupCase{
			{id: "naive-wrong-release", setup: lateHolder("naive"), breaks: kinds{finding.WrongReleases}},
			{id: "uuid-looks-first", setup: lateHolder("uuid"), holds: kinds{finding.WrongReleases}},
		}, parameters: []lab.Parameter{
			locks("naive", "thread-id", "uuid", "lua", "reentrant", "fair"), fixedLease(50*time.Millisecond, 5*time.Second), workInside(2 * time.Second),
			pauseOf("pause", i18n.F("how much longer the first buyer works"), lock.CriticalSection, true, 3*time.Second), buyers(1+chainQueue, 2, 16),
		}},
		{text: "shared-number", scenario: lateReleaseElsewhere, stretches: true, needs: realServers(), cases: []setupCase{
			{id: "thread-id-two-processes", setup: inProcesses(2, lateRelease("thread-id")), breaks: kinds{finding.WrongReleases}},
			{id: "uuid-two-processes", setup: inProcesses(2, lateRelease("uuid")), holds: kinds{finding.WrongReleases}},
		}, parameters: []lab.Parameter{
			fixedLease(100*time.Millisecond, 5*time.Second), workInside(2 * time.Second),
			pauseOf("pause", i18n.F("from the first buyer's work to its release"), lock.BeforeRelease, true, 3*time.Second),
		}},
		{text: "compare-and-delete", scenario: threeInARow, stretches: true, cases: []setupCase{
			{id: "uuid-between-compare-and-delete", setup: pausedRelease("uuid"), breaks: kinds{finding.WrongReleases}},
			{id: "lua-atomic-release", setup: pausedRelease("lua"), holds: kinds{finding.WrongReleases}},
		}, parameters: []lab.Parameter{
			locks("naive", "uuid", "lua", "reentrant"), fixedLease(100*time.Millisecond, 5*time.Second), workInside(2 * time.Second),
			pauseOf("pause", i18n.F("between comparison and deletion, where there is such a moment"), lock.BetweenCompareAndDelete, false, 3*time.Second),
		}},
		{text: "native-release", scenario: lateHolderReturns, needs: []testbed.Server{testbed.Valkey}, quiet: true, cases: []setupCase{
			{id: "naive-late-release", setup: returningLate("naive"), breaks: kinds{finding.WrongReleases}},
			{id: "native-late-release", setup: returningLate("native"), holds: kinds{finding.WrongReleases}},
		}},
		{text: "wrong-key", scenario: oneAfterTheOther, cases: []setupCase{
			{id: "uuid-wrong-key", setup: tryingOnce("uuid-wrong-key"), breaks: kinds{finding.LockedOut}},
			{id: "uuid-right-key", setup: tryingOnce("uuid"), holds: kinds{finding.LockedOut}},
		}, parameters: []lab.Parameter{fixedLease(200*time.Millisecond, 3*time.Second), workInside(100 * time.Millisecond)}},
	}
}

// leased is a setup with a fixed lease.
func leased(lease time.Duration, p voucher.Policy) lab.Setup {
	p.LockTTLMS = lease.Milliseconds()
	return lab.Setup{Policy: p}
}

// The chain: every buyer works for less than the lease, except for the late one. The late
// buyer returns in the middle of its successor's work. From then on two buyers are inside, and
// each deletes the other's lock. They are half a turn apart, so every step has more than a
// tenth of a second.
const (
	chainLease = 400 * time.Millisecond
	chainWork  = 300 * time.Millisecond
	chainLate  = 250 * time.Millisecond // on top of the work, for one buyer in lateOdds
	chainQueue = 5                      // buyers behind the late one
)

// lateOdds is the odds of being late: one buyer in 20.
const lateOdds = 20

// lateHolder makes one buyer in twenty pause beyond its lease.
func lateHolder(mechanism string) lab.Setup {
	late := pauseAt(lock.CriticalSection, chainLate)
	late.Probability = 1.0 / lateOdds
	return leased(chainLease, openPolicy(mechanism, pauseAt(lock.CriticalSection, chainWork), late))
}

// In this scenario all work ends within its lease. Only the time between the end of the work
// and the release is long, for one buyer in lateOdds.
const (
	numberLease = 600 * time.Millisecond
	numberWork  = 350 * time.Millisecond
	numberLate  = 400 * time.Millisecond
)

func lateRelease(mechanism string) lab.Setup {
	late := pauseAt(lock.BeforeRelease, numberLate)
	late.Probability = 1.0 / lateOdds
	return leased(numberLease, openPolicy(mechanism, pauseAt(lock.CriticalSection, numberWork), late))
}

// The gap: a buyer compares half a lease before its lock ends, and deletes in the middle of
// its successor's work.
const (
	gapLease = 600 * time.Millisecond
	gapWork  = 300 * time.Millisecond
	gap      = 450 * time.Millisecond
)

func pausedRelease(mechanism string) lab.Setup {
	return leased(gapLease, openPolicy(mechanism,
		pauseAt(lock.CriticalSection, gapWork), pauseAt(lock.BetweenCompareAndDelete, gap)))
}

const (
	wrongKeyLease = 600 * time.Millisecond
	wrongKeyWork  = 100 * time.Millisecond
)

// tryingOnce is a setup in which buyers try once.
func tryingOnce(mechanism string) lab.Setup {
	p := openPolicy(mechanism, pauseAt(lock.CriticalSection, wrongKeyWork))
	p.LockWaitMS = 0
	return leased(wrongKeyLease, p)
}
