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
			Process: func(testing.TB, *locktest.Line) lock.Locker { return none.New() },
		}
	}
	locktest.Run(t, subject, locktest.Promises{
		locktest.ExcludesGoroutines:           locktest.Breaks("everybody gets in"),
		locktest.ExcludesProcesses:            locktest.Breaks("everybody gets in"),
		locktest.KeepsKeysApart:               locktest.Holds(),
		locktest.ServesInOrder:                locktest.NotApplicable("nobody waits"),
		locktest.ServesInOrderAcrossProcesses: locktest.Breaks("everybody gets in"),
		locktest.EvictsDeadWaiters:            locktest.Breaks("everybody gets in"),
		locktest.QueueSurvivesPause:           locktest.NotApplicable("no server"),
		locktest.OwnerFromContext:             locktest.Holds(),
		locktest.NamesHolder:                  locktest.Breaks("nobody is refused"),
		locktest.Reenters:                     locktest.Breaks("the key is never taken"),
		locktest.ReentryKeepsLease:            locktest.NotApplicable("no leases"),
		locktest.TokensGrow:                   locktest.Breaks("no tokens"),
		locktest.TokenStaysOnReentry:          locktest.Breaks("no tokens"),
		locktest.TokensOutliveLock:            locktest.Breaks("no tokens"),
		locktest.TriesOnce:                    locktest.Breaks("nobody is refused"),
		locktest.WaitsAsLongAsAsked:           locktest.Breaks("nobody waits"),
		locktest.ReleaseLetsWaiterIn:          locktest.NotApplicable("nobody waits"),
		locktest.WakesByMessage:               locktest.NotApplicable("nobody waits"),
		locktest.ExpiryLetsWaiterIn:           locktest.NotApplicable("nothing is held"),
		locktest.TellsCancelledFromTaken:      locktest.Breaks("nobody waits, so nobody is cancelled waiting"),
		locktest.CancelLeavesNothing:          locktest.NotApplicable("no server"),
		locktest.CancelledWaitersAreGone:      locktest.Breaks("nobody waits, so nobody is cancelled waiting"),
		locktest.SurvivesLostGrantReply:       locktest.NotApplicable("no server"),
		locktest.FailedGrantIsGivenBack:       locktest.Holds(),
		locktest.AbandonedGrantStays:          locktest.Breaks("the key is never taken"),
		locktest.KeepsGivenLease:              locktest.NotApplicable("no leases"),
		locktest.LeaseRunsOut:                 locktest.NotApplicable("nothing is held"),
		locktest.SurvivesLongHold:             locktest.Breaks("everybody gets in"),
		locktest.FreedAfterDeath:              locktest.NotApplicable("nothing is held"),
		locktest.RenewalIsRetried:             locktest.NotApplicable("no leases"),
		locktest.RenewalEndsWithRelease:       locktest.NotApplicable("no leases"),
		locktest.ToldWhenDeleted:              locktest.NotApplicable("nothing is held"),
		locktest.ToldWhenStolen:               locktest.NotApplicable("nothing is held"),
		locktest.ToldWhenExpired:              locktest.Breaks("leases are ignored"),
		locktest.ToldBeforeOthersGetIn:        locktest.NotApplicable("no server"),
		locktest.ReleasesOnce:                 locktest.Holds(),
		locktest.ReleasesOnlyOwn:              locktest.NotApplicable("nothing is held"),
		locktest.ReleasesAtomically:           locktest.NotApplicable("nothing is held"),
		locktest.TellsExpiredFromLost:         locktest.NotApplicable("nothing is held"),
		locktest.LeavesNothing:                locktest.NotApplicable("no store"),
		locktest.EndsContextOnRelease:         locktest.Holds(),
		locktest.SurvivesLostReleaseReply:     locktest.NotApplicable("no server"),
		locktest.ReleasesAgainAfterOutage:     locktest.NotApplicable("no server"),
		locktest.UnavailableIsQuick:           locktest.NotApplicable("no server"),
		locktest.RefusesInvalid:               locktest.Holds(),
		locktest.RefusesWrongKind:             locktest.NotApplicable("no store"),
		locktest.ExtendsLease:                 locktest.Breaks("leases are ignored"),
		locktest.SaysWhoHolds:                 locktest.Breaks("nobody holds anything"),
		locktest.CanBeForced:                  locktest.Breaks("nothing is held"),
		locktest.AsyncDelivers:                locktest.Breaks("nobody waits, so nobody is cancelled waiting"),
		locktest.LinearizableMutex:            locktest.Breaks("everybody gets in"),
		locktest.LinearizableReentrant:        locktest.Breaks("everybody gets in"),
		locktest.LinearizableFenced:           locktest.Breaks("everybody gets in"),
		locktest.FollowsModel:                 locktest.Breaks("everybody gets in"),
		locktest.EnduresManyPairs:             locktest.Breaks("everybody gets in"),
		locktest.ThousandCancelledWaiters:     locktest.Breaks("nobody waits, so nobody is cancelled waiting"),
	})
}
