package none_test

import (
	"testing"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/none"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestConformance(t *testing.T) {
	subject := func(testing.TB) locktest.Subject {
		return locktest.Subject{
			Process: func(testing.TB, *locktest.Network) lock.Locker { return none.New() },
		}
	}
	locktest.Virtual(t, subject, locktest.AllHold().
		Except(locktest.Breaks("it excludes nobody"),
			locktest.ExcludesGoroutines, locktest.ExcludesProcesses, locktest.ServesInOrderAcrossProcesses,
			locktest.EvictsDeadWaiters, locktest.SurvivesLongHold, locktest.LinearizableMutex,
			locktest.LinearizableReentrant, locktest.LinearizableFenced, locktest.FollowsModel,
			locktest.EnduresManyPairs).
		Except(locktest.Breaks("nobody is refused"), locktest.NamesHolder, locktest.TriesOnce).
		Except(locktest.Breaks("a key is never taken"), locktest.Reenters, locktest.AbandonedGrantStays).
		Except(locktest.Breaks("no tokens"),
			locktest.TokensGrow, locktest.TokenStaysOnReentry, locktest.TokensOutliveLock).
		Except(locktest.Breaks("nobody waits"), locktest.WaitsAsLongAsAsked).
		Except(locktest.NotApplicable("nobody waits"),
			locktest.ServesInOrder, locktest.ReleaseLetsWaiterIn, locktest.WakesByMessage).
		Except(locktest.Breaks("nobody waits, so nobody is cancelled waiting"),
			locktest.TellsCancelledFromTaken, locktest.CancelledWaitersAreGone, locktest.OutlivesContext,
			locktest.ThousandCancelledWaiters).
		Except(locktest.Breaks("leases are ignored"), locktest.ToldWhenExpired, locktest.ExtendsLease).
		Except(locktest.NotApplicable("no leases"),
			locktest.ReentryKeepsLease, locktest.InnerDoesNotShorten, locktest.KeepsGivenLease, locktest.RenewalIsRetried,
			locktest.RenewalEndsWithRelease, locktest.RenewsOnlyOwn).
		Except(locktest.Breaks("nobody holds anything"), locktest.SaysWhoHolds).
		Except(locktest.Breaks("nothing is held"), locktest.CanBeForced).
		Except(locktest.NotApplicable("nothing is held"),
			locktest.ExpiryLetsWaiterIn, locktest.LeaseRunsOut, locktest.FreedAfterDeath,
			locktest.ToldWhenDeleted, locktest.ToldWhenStolen, locktest.ReleasesOnlyOwn,
			locktest.ReleasesAtomically, locktest.TellsExpiredFromLost).
		Except(locktest.NotApplicable("no server"),
			locktest.QueueSurvivesPause, locktest.CancelLeavesNothing, locktest.SurvivesLostGrantReply,
			locktest.ToldBeforeOthersGetIn, locktest.SurvivesLostReleaseReply,
			locktest.ReleasesAgainAfterOutage, locktest.UnavailableIsQuick).
		Except(locktest.NotApplicable("no store"), locktest.LeavesNothing, locktest.RefusesWrongKind))
}
