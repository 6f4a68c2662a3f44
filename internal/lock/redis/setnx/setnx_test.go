package setnx_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/redisstore"
	"seckill/internal/lock/redis/setnx"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func open(client *redis.Client, prefix string) (lock.Locker, error) {
	return setnx.New(client, setnx.Config{Prefix: prefix})
}

func TestConformance(t *testing.T) {
	locktest.Run(t, redisstore.Factory("setnx", open), promises())
}

// On a cluster the lock is what it is on one server.
func TestConformanceOnCluster(t *testing.T) {
	onCluster := redisstore.ClusterFactory(t, "setnx", func(client redis.UniversalClient, prefix string) (lock.Locker, error) {
		return setnx.New(client, setnx.Config{Prefix: prefix})
	})
	locktest.Run(t, onCluster, locktest.Only(promises(), redisstore.ClusterBehaviours()...))
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
		locktest.NamesHolder:                  locktest.Breaks("SET NX says only that the key is taken"),
		locktest.Reenters:                     locktest.Breaks("an owner waits for itself"),
		locktest.ReentryKeepsLease:            locktest.NotApplicable("no re-entry"),
		locktest.TokensGrow:                   locktest.Breaks("no tokens"),
		locktest.TokenStaysOnReentry:          locktest.Breaks("no tokens"),
		locktest.TokensOutliveLock:            locktest.Breaks("no tokens"),
		locktest.TriesOnce:                    locktest.Holds(),
		locktest.WaitsAsLongAsAsked:           locktest.Holds(),
		locktest.ReleaseLetsWaiterIn:          locktest.Holds(),
		locktest.WakesByMessage:               locktest.Breaks("waiters poll"),
		locktest.ExpiryLetsWaiterIn:           locktest.Breaks("no expiry"),
		locktest.TellsCancelledFromTaken:      locktest.Holds(),
		locktest.CancelLeavesNothing:          locktest.Breaks("a grant whose reply never came is not given back: a blind DEL might be of somebody else's lock"),
		locktest.CancelledWaitersAreGone:      locktest.Holds(),
		locktest.SurvivesLostGrantReply:       locktest.Breaks("the repeated command is refused by the first"),
		locktest.FailedGrantIsGivenBack:       locktest.Holds(),
		locktest.AbandonedGrantStays:          locktest.Holds(),
		locktest.KeepsGivenLease:              locktest.Breaks("no expiry"),
		locktest.LeaseRunsOut:                 locktest.Breaks("no expiry"),
		locktest.SurvivesLongHold:             locktest.Holds(),
		locktest.FreedAfterDeath:              locktest.Breaks("no expiry"),
		locktest.RenewalIsRetried:             locktest.NotApplicable("no watchdog"),
		locktest.RenewalEndsWithRelease:       locktest.NotApplicable("no watchdog"),
		locktest.ToldWhenDeleted:              locktest.Breaks("nobody tells the holder"),
		locktest.ToldWhenStolen:               locktest.Breaks("nobody tells the holder"),
		locktest.ToldWhenExpired:              locktest.Breaks("nobody tells the holder"),
		locktest.ToldBeforeOthersGetIn:        locktest.NotApplicable("no watchdog"),
		locktest.ReleasesOnce:                 locktest.Holds(),
		locktest.ReleasesOnlyOwn:              locktest.Breaks("DEL without looking"),
		locktest.ReleasesAtomically:           locktest.NotApplicable("nothing is compared"),
		locktest.TellsExpiredFromLost:         locktest.Breaks("DEL without looking"),
		locktest.LeavesNothing:                locktest.Holds(),
		locktest.EndsContextOnRelease:         locktest.Holds(),
		locktest.SurvivesLostReleaseReply:     locktest.Holds(),
		locktest.ReleasesAgainAfterOutage:     locktest.Holds(),
		locktest.UnavailableIsQuick:           locktest.Holds(),
		locktest.RefusesInvalid:               locktest.Holds(),
		locktest.RefusesWrongKind:             locktest.Breaks("SET NX says only that the key is taken"),
		locktest.ExtendsLease:                 locktest.Breaks("no expiry"),
		locktest.SaysWhoHolds:                 locktest.Holds(),
		locktest.CanBeForced:                  locktest.Breaks("nobody can take a lock away"),
		locktest.AsyncDelivers:                locktest.Holds(),
		locktest.LinearizableMutex:            locktest.Holds(),
		locktest.LinearizableReentrant:        locktest.Breaks("an owner waits for itself"),
		locktest.LinearizableFenced:           locktest.Breaks("no tokens"),
		locktest.FollowsModel:                 locktest.Breaks("DEL without looking"),
		locktest.EnduresManyPairs:             locktest.Holds(),
		locktest.ThousandCancelledWaiters:     locktest.Holds(),
	}
}

func TestNewNeedsClient(t *testing.T) {
	if _, err := setnx.New(nil, setnx.Config{}); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("New(nil) = %v, want ErrInvalid", err)
	}
}
