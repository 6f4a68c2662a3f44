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

// The lock keeps the same promises on a cluster as on one server.
func TestConformanceOnCluster(t *testing.T) {
	openCluster := func(client redis.UniversalClient, prefix string) (lock.Locker, error) {
		return threadid.New(client, threadid.Config{Prefix: prefix})
	}
	onCluster := redisstore.ClusterFactory(t, "thread-id", openCluster)
	locktest.Run(t, onCluster, locktest.Only(promises(), redisstore.ClusterBehaviours()...))
}

func promises() locktest.Promises {
	return locktest.FixedLease().
		Except(locktest.Breaks("SET NX tells only that the key exists"),
			locktest.NamesHolder, locktest.RefusesWrongKind).
		Except(locktest.NotApplicable("giving up an attempt deletes any key with the same number: whether that is the holder's depends on timing"),
			locktest.CancelledWaitersAreGone).
		Except(locktest.Breaks("the client repeats the command, and its own first one refuses it"), locktest.SurvivesLostGrantReply).
		Except(locktest.Breaks("two processes have the same numbers"),
			locktest.ReleasesOnlyOwn, locktest.FollowsModel).
		Except(locktest.Breaks("GET, compare and DEL are three steps"), locktest.ReleasesAtomically).
		Except(locktest.Breaks("the number is not an owner"), locktest.SaysWhoHolds)
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

// Two processes with the same counter take each other's lock for their own: the late release
// succeeds, and the other holder loses its lock.
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
