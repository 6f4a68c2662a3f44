package lockjudge

import (
	"slices"

	"seckill/internal/lock/locktest"
)

// Grade is how grave it is that a behaviour breaks.
type Grade int

// The grades, the gravest first.
const (
	Exclusion Grade = iota // two holders, or a holder whose lock is taken from it
	Releasing              // a release that fails, or says something that is not so
	Liveness               // a lock that stays taken, or a caller that waits in vain
	Telling                // a holder that does not learn that it holds no longer
	Comfort                // what one can do without
)

// String is the heading of a grade.
func (g Grade) String() string {
	return [...]string{"mutual exclusion", "release", "liveness", "being told", "comfort"}[g]
}

// graded is a behaviour that can be judged without knowing how a lock works.
type graded struct {
	grade     Grade
	behaviour locktest.Behaviour
	// watchdog: it is about renewal, and says nothing about a lock without.
	watchdog bool
	// reentry: it is about re-entry, likewise.
	reentry bool
}

// IsBehaviour reports whether the judge tries a behaviour.
func IsBehaviour(name locktest.Behaviour) bool {
	return slices.ContainsFunc(all(), func(g graded) bool { return g.behaviour == name })
}

// all are the behaviours of the judge, the gravest first. Those of a Go interface (contexts, invalid options,
// inspection, fault points) are left out: a lock in another language has none.
func all() []graded {
	return []graded{
		{grade: Exclusion, behaviour: locktest.ExcludesGoroutines},
		{grade: Exclusion, behaviour: locktest.ExcludesProcesses},
		{grade: Exclusion, behaviour: locktest.ReleasesOnlyOwn},
		{grade: Exclusion, behaviour: locktest.ReleasesAtomically},
		{grade: Exclusion, behaviour: locktest.RenewalIsRetried, watchdog: true},
		{grade: Exclusion, behaviour: locktest.RenewalEndsWithRelease, watchdog: true},
		{grade: Exclusion, behaviour: locktest.SurvivesLongHold},
		{grade: Exclusion, behaviour: locktest.InnerDoesNotShorten, reentry: true},

		{grade: Releasing, behaviour: locktest.ReleasesOnce},
		{grade: Releasing, behaviour: locktest.TellsExpiredFromLost},
		{grade: Releasing, behaviour: locktest.SurvivesLostReleaseReply},
		{grade: Releasing, behaviour: locktest.ReleasesAgainAfterOutage},
		{grade: Releasing, behaviour: locktest.LeavesNothing},

		{grade: Liveness, behaviour: locktest.FreedAfterDeath},
		{grade: Liveness, behaviour: locktest.RenewsOnlyOwn, watchdog: true},
		{grade: Liveness, behaviour: locktest.LeaseRunsOut},
		{grade: Liveness, behaviour: locktest.KeepsGivenLease},
		{grade: Liveness, behaviour: locktest.KeepsKeysApart},
		{grade: Liveness, behaviour: locktest.SurvivesLostGrantReply},
		{grade: Liveness, behaviour: locktest.ReleaseLetsWaiterIn},
		{grade: Liveness, behaviour: locktest.CancelLeavesNothing},
		{grade: Liveness, behaviour: locktest.UnavailableIsQuick},

		{grade: Telling, behaviour: locktest.ToldBeforeOthersGetIn, watchdog: true},
		{grade: Telling, behaviour: locktest.ToldWhenDeleted},
		{grade: Telling, behaviour: locktest.ToldWhenStolen},
		{grade: Telling, behaviour: locktest.ToldWhenExpired},

		{grade: Comfort, behaviour: locktest.TriesOnce},
		{grade: Comfort, behaviour: locktest.WaitsAsLongAsAsked},
		{grade: Comfort, behaviour: locktest.TellsCancelledFromTaken},
		{grade: Comfort, behaviour: locktest.NamesHolder},
		{grade: Comfort, behaviour: locktest.Reenters},
		{grade: Comfort, behaviour: locktest.TokensGrow},
		{grade: Comfort, behaviour: locktest.WakesByMessage},
		{grade: Comfort, behaviour: locktest.ServesInOrder},
	}
}
