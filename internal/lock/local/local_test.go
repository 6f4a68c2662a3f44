package local

import (
	"context"
	"maps"
	"slices"
	"testing"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestConformance(t *testing.T) {
	locktest.Run(t, subject, locktest.Promises{
		locktest.ExcludesGoroutines:           locktest.Holds(),
		locktest.ExcludesProcesses:            locktest.Breaks("each process has its own mutexes"),
		locktest.KeepsKeysApart:               locktest.Holds(),
		locktest.ServesInOrder:                locktest.Holds(),
		locktest.ServesInOrderAcrossProcesses: locktest.Breaks("each process has its own mutexes"),
		locktest.EvictsDeadWaiters:            locktest.Breaks("each process has its own mutexes"),
		locktest.QueueSurvivesPause:           locktest.NotApplicable("no server"),
		locktest.OwnerFromContext:             locktest.Holds(),
		locktest.NamesHolder:                  locktest.Holds(),
		locktest.Reenters:                     locktest.Breaks("an owner waits for itself"),
		locktest.ReentryKeepsLease:            locktest.NotApplicable("no re-entry"),
		locktest.TokensGrow:                   locktest.Breaks("no tokens"),
		locktest.TokenStaysOnReentry:          locktest.Breaks("no tokens"),
		locktest.TokensOutliveLock:            locktest.Breaks("no tokens"),
		locktest.TriesOnce:                    locktest.Holds(),
		locktest.WaitsAsLongAsAsked:           locktest.Holds(),
		locktest.ReleaseLetsWaiterIn:          locktest.Holds(),
		locktest.WakesByMessage:               locktest.Holds(),
		locktest.ExpiryLetsWaiterIn:           locktest.Breaks("leases are ignored"),
		locktest.TellsCancelledFromTaken:      locktest.Holds(),
		locktest.CancelLeavesNothing:          locktest.NotApplicable("no server"),
		locktest.CancelledWaitersAreGone:      locktest.Holds(),
		locktest.SurvivesLostGrantReply:       locktest.NotApplicable("no server"),
		locktest.FailedGrantIsGivenBack:       locktest.Holds(),
		locktest.AbandonedGrantStays:          locktest.Holds(),
		locktest.KeepsGivenLease:              locktest.NotApplicable("leases are ignored"),
		locktest.LeaseRunsOut:                 locktest.Breaks("leases are ignored"),
		locktest.SurvivesLongHold:             locktest.Holds(),
		locktest.FreedAfterDeath:              locktest.Breaks("leases are ignored"),
		locktest.RenewalIsRetried:             locktest.NotApplicable("no watchdog"),
		locktest.RenewalEndsWithRelease:       locktest.NotApplicable("no watchdog"),
		locktest.ToldWhenDeleted:              locktest.NotApplicable("the key is out of reach of others in this process's memory"),
		locktest.ToldWhenStolen:               locktest.NotApplicable("the key is out of reach of others in this process's memory"),
		locktest.ToldWhenExpired:              locktest.Breaks("leases are ignored"),
		locktest.ToldBeforeOthersGetIn:        locktest.NotApplicable("no server"),
		locktest.ReleasesOnce:                 locktest.Holds(),
		locktest.ReleasesOnlyOwn:              locktest.NotApplicable("the key is out of reach of others in this process's memory"),
		locktest.ReleasesAtomically:           locktest.NotApplicable("the key is out of reach of others in this process's memory"),
		locktest.TellsExpiredFromLost:         locktest.NotApplicable("the key is out of reach of others in this process's memory"),
		locktest.LeavesNothing:                locktest.Holds(),
		locktest.EndsContextOnRelease:         locktest.Holds(),
		locktest.SurvivesLostReleaseReply:     locktest.NotApplicable("no server"),
		locktest.ReleasesAgainAfterOutage:     locktest.NotApplicable("no server"),
		locktest.UnavailableIsQuick:           locktest.NotApplicable("no server"),
		locktest.RefusesInvalid:               locktest.Holds(),
		locktest.RefusesWrongKind:             locktest.NotApplicable("the key is out of reach of others in this process's memory"),
		locktest.ExtendsLease:                 locktest.Breaks("leases are ignored"),
		locktest.SaysWhoHolds:                 locktest.Breaks("it cannot be asked"),
		locktest.CanBeForced:                  locktest.Breaks("nobody can take a lock away"),
		locktest.AsyncDelivers:                locktest.Holds(),
		locktest.LinearizableMutex:            locktest.Breaks("each process has its own mutexes"),
		locktest.LinearizableReentrant:        locktest.Breaks("each process has its own mutexes"),
		locktest.LinearizableFenced:           locktest.Breaks("each process has its own mutexes"),
		locktest.FollowsModel:                 locktest.Holds(),
		locktest.EnduresManyPairs:             locktest.Holds(),
		locktest.ThousandCancelledWaiters:     locktest.Holds(),
	})
}

// subject looks into the queues of all its processes.
func subject(testing.TB) locktest.Subject {
	var all []*Locker
	return locktest.Subject{
		Process: func(testing.TB, *locktest.Line) lock.Locker {
			l := New()
			all = append(all, l)
			return l
		},
		Store: locktest.Store{
			Waiting: func(_ context.Context, key string) (int, error) {
				n := 0
				for _, l := range all {
					l.mu.Lock()
					n += max(0, len(l.queues[key])-1)
					l.mu.Unlock()
				}
				return n, nil
			},
			Left: func(context.Context) ([]string, error) {
				var keys []string
				for _, l := range all {
					l.mu.Lock()
					keys = append(keys, slices.Collect(maps.Keys(l.queues))...)
					l.mu.Unlock()
				}
				return keys, nil
			},
		},
	}
}
