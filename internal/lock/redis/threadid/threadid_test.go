package threadid_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/redisstore"
	"seckill/internal/lock/redis/threadid"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func open(client *redis.Client, prefix string) (lock.Locker, error) {
	return threadid.New(client, threadid.Config{Prefix: prefix})
}

func TestConformance(t *testing.T) {
	locktest.Run(t, redisstore.Factory("thread-id", open), promises())
}

// On a cluster the lock is what it is on one server.
func TestConformanceOnCluster(t *testing.T) {
	onCluster := redisstore.ClusterFactory(t, "thread-id", func(client redis.UniversalClient, prefix string) (lock.Locker, error) {
		return threadid.New(client, threadid.Config{Prefix: prefix})
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
		locktest.ExpiryLetsWaiterIn:           locktest.Holds(),
		locktest.TellsCancelledFromTaken:      locktest.Holds(),
		locktest.CancelLeavesNothing:          locktest.Holds(),
		locktest.CancelledWaitersAreGone:      locktest.NotApplicable("who gives an attempt up gives back whatever has its number: whether that is the holder's depends on who came when"),
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
		locktest.ReleasesOnlyOwn:              locktest.Breaks("two processes have the same numbers"),
		locktest.ReleasesAtomically:           locktest.Breaks("GET, compare and DEL are three steps"),
		// The trial's processes have counted to different numbers; TestNumbersMeet has them equal.
		locktest.TellsExpiredFromLost:     locktest.Holds(),
		locktest.LeavesNothing:            locktest.Holds(),
		locktest.EndsContextOnRelease:     locktest.Holds(),
		locktest.SurvivesLostReleaseReply: locktest.Holds(),
		locktest.ReleasesAgainAfterOutage: locktest.Holds(),
		locktest.UnavailableIsQuick:       locktest.Holds(),
		locktest.RefusesInvalid:           locktest.Holds(),
		locktest.RefusesWrongKind:         locktest.Breaks("SET NX says only that the key is taken"),
		locktest.ExtendsLease:             locktest.Breaks("a lease cannot be extended"),
		locktest.SaysWhoHolds:             locktest.Breaks("the number names nobody"),
		locktest.CanBeForced:              locktest.Breaks("nobody can take a lock away"),
		locktest.AsyncDelivers:            locktest.Holds(),
		locktest.LinearizableMutex:        locktest.Holds(),
		locktest.LinearizableReentrant:    locktest.Breaks("an owner waits for itself"),
		locktest.LinearizableFenced:       locktest.Breaks("no tokens"),
		locktest.FollowsModel:             locktest.Breaks("two processes have the same number"),
		locktest.EnduresManyPairs:         locktest.Holds(),
		locktest.ThousandCancelledWaiters: locktest.Holds(),
	}
}

func TestNewNeedsClient(t *testing.T) {
	if _, err := threadid.New(nil, threadid.Config{}); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("New(nil) = %v, want ErrInvalid", err)
	}
}

func TestReleaseAfterLostReply(t *testing.T) {
	redisstore.ReleaseAfterLostReply(t, open, 2) // GET and DEL
}

func TestPassesBetweenCompareAndDelete(t *testing.T) {
	redisstore.PassesBetweenCompareAndDelete(t, open)
}

// Two processes that have counted equally far take each other's lock for their own:
// the late release says that all is well, and the holder has none any more.
func TestNumbersMeet(t *testing.T) {
	client, prefix := testkit.Redis(t).Client(t), testkit.KeyPrefix(t)
	var processes [2]*threadid.Locker
	for i := range processes {
		var err error
		if processes[i], err = threadid.New(client, threadid.Config{Prefix: prefix}); err != nil {
			t.Fatal(err)
		}
	}
	const short = 50 * time.Millisecond
	for round := range 3 {
		late, err := processes[0].Acquire(t.Context(), "seat", lock.Options{TTL: short})
		if err != nil {
			t.Fatal(err)
		}
		holder, err := processes[1].Acquire(t.Context(), "seat", lock.Options{Wait: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if err := late.Release(t.Context()); err != nil {
			t.Errorf("round %d: a release of the other process's lock = %v, want nil: the numbers are equal", round, err)
		}
		if err := holder.Release(t.Context()); !errors.Is(err, lock.ErrExpired) {
			t.Errorf("round %d: the holder's own release = %v, want ErrExpired: its lock was deleted", round, err)
		}
	}
}
