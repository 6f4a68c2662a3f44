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
	locktest.Virtual(t, subject, locktest.NoTokens().
		Except(locktest.Breaks("each process has its own mutexes"),
			locktest.ExcludesProcesses, locktest.ServesInOrderAcrossProcesses, locktest.EvictsDeadWaiters,
			locktest.LinearizableMutex, locktest.LinearizableReentrant, locktest.LinearizableFenced).
		Except(locktest.Breaks("an owner waits for itself"), locktest.Reenters).
		Except(locktest.NotApplicable("no re-entry"), locktest.ReentryKeepsLease, locktest.InnerDoesNotShorten).
		Except(locktest.Breaks("leases are ignored"),
			locktest.ExpiryLetsWaiterIn, locktest.LeaseRunsOut, locktest.FreedAfterDeath,
			locktest.ToldWhenExpired, locktest.ExtendsLease).
		Except(locktest.NotApplicable("leases are ignored"), locktest.KeepsGivenLease).
		Except(locktest.NotApplicable("no watchdog"), locktest.RenewalIsRetried, locktest.RenewalEndsWithRelease, locktest.RenewsOnlyOwn).
		Except(locktest.NotApplicable("the key is in this process's memory, where nothing else can change it"),
			locktest.ToldWhenDeleted, locktest.ToldWhenStolen, locktest.ReleasesOnlyOwn,
			locktest.ReleasesAtomically, locktest.TellsExpiredFromLost, locktest.RefusesWrongKind).
		Except(locktest.NotApplicable("no server"),
			locktest.QueueSurvivesPause, locktest.CancelLeavesNothing, locktest.SurvivesLostGrantReply,
			locktest.ToldBeforeOthersGetIn, locktest.SurvivesLostReleaseReply,
			locktest.ReleasesAgainAfterOutage, locktest.UnavailableIsQuick).
		Except(locktest.Breaks("there is no Inspect"), locktest.SaysWhoHolds).
		Except(locktest.Breaks("there is no forced release"), locktest.CanBeForced))
}

// subject returns a subject that reads the queues of all its processes.
func subject(testing.TB) locktest.Subject {
	var all []*Locker
	return locktest.Subject{
		Process: func(testing.TB, *locktest.Network) lock.Locker {
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
			Leftovers: func(context.Context) ([]string, error) {
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
