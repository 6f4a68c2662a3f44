package lua_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/redisstore"
	"seckill/internal/lock/redis/lua"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func open(client *redis.Client, prefix string) (lock.Locker, error) {
	return lua.New(client, lua.Config{Prefix: prefix})
}

func TestConformance(t *testing.T) {
	locktest.Run(t, redisstore.Factory("lua", open), promises())
}

// On a cluster a lock is what it is on one server.
func TestConformanceOnCluster(t *testing.T) {
	open := func(client redis.UniversalClient, prefix string) (lock.Locker, error) {
		return lua.New(client, lua.Config{Prefix: prefix})
	}
	locktest.Run(t, redisstore.ClusterFactory(t, "lua", open), locktest.Only(promises(), redisstore.ClusterBehaviours()...))
}

func promises() locktest.Promises {
	return locktest.Promises{
		locktest.ExcludesGoroutines:           locktest.Holds(),
		locktest.ExcludesProcesses:            locktest.Holds(),
		locktest.KeepsKeysApart:               locktest.Holds(),
		locktest.ServesInOrder:                locktest.Breaks("whoever asks at the right moment gets in"),
		locktest.ServesInOrderAcrossProcesses: locktest.Breaks("whoever asks at the right moment gets in"),
		locktest.EvictsDeadWaiters:            locktest.Holds(),
		locktest.QueueSurvivesPause:           locktest.Breaks("whoever asks at the right moment gets in"),
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
		locktest.WakesByMessage:               locktest.Breaks("waiters poll"),
		locktest.ExpiryLetsWaiterIn:           locktest.Holds(),
		locktest.TellsCancelledFromTaken:      locktest.Holds(),
		locktest.CancelLeavesNothing:          locktest.Holds(),
		locktest.CancelledWaitersAreGone:      locktest.Holds(),
		locktest.SurvivesLostGrantReply:       locktest.Holds(),
		locktest.FailedGrantIsGivenBack:       locktest.Holds(),
		locktest.AbandonedGrantStays:          locktest.Holds(),
		locktest.KeepsGivenLease:              locktest.Holds(),
		locktest.LeaseRunsOut:                 locktest.Holds(),
		locktest.SurvivesLongHold:             locktest.Breaks("the lease is fixed"),
		locktest.FreedAfterDeath:              locktest.Holds(),
		locktest.RenewalIsRetried:             locktest.NotApplicable("no watchdog"),
		locktest.RenewalEndsWithRelease:       locktest.NotApplicable("no watchdog"),
		locktest.ToldWhenDeleted:              locktest.Breaks("nobody tells the holder"),
		locktest.ToldWhenStolen:               locktest.Breaks("nobody tells the holder"),
		locktest.ToldWhenExpired:              locktest.Breaks("nobody tells the holder"),
		locktest.ToldBeforeOthersGetIn:        locktest.NotApplicable("no watchdog"),
		locktest.ReleasesOnce:                 locktest.Holds(),
		locktest.ReleasesOnlyOwn:              locktest.Holds(),
		locktest.ReleasesAtomically:           locktest.Holds(),
		locktest.TellsExpiredFromLost:         locktest.Holds(),
		locktest.LeavesNothing:                locktest.Holds(),
		locktest.EndsContextOnRelease:         locktest.Holds(),
		locktest.SurvivesLostReleaseReply:     locktest.Breaks("the repeated script finds the key gone and calls it expired"),
		locktest.ReleasesAgainAfterOutage:     locktest.Holds(),
		locktest.UnavailableIsQuick:           locktest.Holds(),
		locktest.RefusesInvalid:               locktest.Holds(),
		locktest.RefusesWrongKind:             locktest.Holds(),
		locktest.ExtendsLease:                 locktest.Breaks("a lease cannot be extended"),
		locktest.SaysWhoHolds:                 locktest.Holds(),
		locktest.CanBeForced:                  locktest.Breaks("nobody can take a lock away"),
		locktest.AsyncDelivers:                locktest.Holds(),
		locktest.LinearizableMutex:            locktest.Holds(),
		locktest.LinearizableReentrant:        locktest.Breaks("an owner waits for itself"),
		locktest.LinearizableFenced:           locktest.Breaks("no tokens"),
		locktest.FollowsModel:                 locktest.Holds(),
		locktest.EnduresManyPairs:             locktest.Holds(),
		locktest.ThousandCancelledWaiters:     locktest.Holds(),
	}
}

func TestNewNeedsClient(t *testing.T) {
	if _, err := lua.New(nil, lua.Config{}); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("New(nil) = %v, want ErrInvalid", err)
	}
}

func TestReleaseAfterLostReply(t *testing.T) {
	redisstore.ReleaseAfterLostReply(t, open, 1) // the script
}

func TestDeclaresKeys(t *testing.T) {
	redisstore.DeclaresKeys(t, open, nil)
}
