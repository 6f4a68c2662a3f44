package setnxexpire_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/redisstore"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/lock/redis/setnxexpire"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func open(client *redis.Client, prefix string) (lock.Locker, error) {
	return setnxexpire.New(client, setnxexpire.Config{Prefix: prefix})
}

func TestConformance(t *testing.T) {
	locktest.Run(t, redisstore.Factory("setnx-expire", open), promises())
}

// On a cluster the lock is what it is on one server.
func TestConformanceOnCluster(t *testing.T) {
	onCluster := redisstore.ClusterFactory(t, "setnx-expire", func(client redis.UniversalClient, prefix string) (lock.Locker, error) {
		return setnxexpire.New(client, setnxexpire.Config{Prefix: prefix})
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
		locktest.NamesHolder:                  locktest.Breaks("SETNX says only that the key is taken"),
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
		locktest.CancelLeavesNothing:          locktest.Breaks("a grant whose reply never came is not given back, and has no end"),
		locktest.CancelledWaitersAreGone:      locktest.Holds(),
		locktest.SurvivesLostGrantReply:       locktest.Breaks("the repeated command is refused by the first"),
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
		locktest.ReleasesOnlyOwn:              locktest.Breaks("DEL without looking"),
		locktest.ReleasesAtomically:           locktest.NotApplicable("nothing is compared"),
		locktest.TellsExpiredFromLost:         locktest.Breaks("DEL without looking"),
		locktest.LeavesNothing:                locktest.Holds(),
		locktest.EndsContextOnRelease:         locktest.Holds(),
		locktest.SurvivesLostReleaseReply:     locktest.Holds(),
		locktest.ReleasesAgainAfterOutage:     locktest.Holds(),
		locktest.UnavailableIsQuick:           locktest.Holds(),
		locktest.RefusesInvalid:               locktest.Holds(),
		locktest.RefusesWrongKind:             locktest.Breaks("SETNX says only that the key is taken"),
		locktest.ExtendsLease:                 locktest.Breaks("a lease cannot be extended"),
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
	if _, err := setnxexpire.New(nil, setnxexpire.Config{}); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("New(nil) = %v, want ErrInvalid", err)
	}
}

// A holder that dies between the two commands keeps the key for ever; one that
// fails there gives it back.
func TestDiesBetweenTheTwo(t *testing.T) {
	client, prefix := testkit.Redis(t).Client(t), testkit.KeyPrefix(t)
	l, err := setnxexpire.New(client, setnxexpire.Config{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	const lease = 50 * time.Millisecond
	acquireStruck := func(effect lock.Effect) error {
		t.Helper()
		faults, err := lock.NewFaults([]lock.Fault{{Point: lock.BetweenSetNXAndExpire, Effect: effect}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Acquire(t.Context(), "seat", lock.Options{TTL: lease, Faults: faults})
		return err
	}

	if err := acquireStruck(lock.EffectError); !errors.Is(err, lock.ErrInjected) {
		t.Fatalf("Acquire that fails between the two = %v, want ErrInjected", err)
	}
	if err := acquireStruck(lock.EffectAbandon); !errors.Is(err, lock.ErrAbandoned) {
		t.Fatalf("Acquire that dies between the two = %v, want ErrAbandoned: the failure before it gave the key back", err)
	}
	const never = -1 // as go-redis gives it
	if ttl, err := client.PTTL(t.Context(), redisio.Key(prefix, "setnx-expire", "seat", "")).Result(); err != nil || ttl != never {
		t.Errorf("the dead holder's key ends in %v, %v, want no end", ttl, err)
	}
	if _, err := l.Acquire(t.Context(), "seat", lock.Options{Wait: 4 * lease}); !errors.Is(err, lock.ErrNotAcquired) {
		t.Errorf("Acquire, four leases after the death = %v, want ErrNotAcquired", err)
	}
}
