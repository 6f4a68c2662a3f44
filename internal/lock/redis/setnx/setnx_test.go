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

// The lock keeps the same promises on a cluster as on one server.
func TestConformanceOnCluster(t *testing.T) {
	openCluster := func(client redis.UniversalClient, prefix string) (lock.Locker, error) {
		return setnx.New(client, setnx.Config{Prefix: prefix})
	}
	onCluster := redisstore.ClusterFactory(t, "setnx", openCluster)
	locktest.Run(t, onCluster, locktest.Only(promises(), redisstore.ClusterBehaviours()...))
}

func promises() locktest.Promises {
	return locktest.BlindDelete().
		Except(locktest.Breaks("a grant whose reply was lost is not released: DEL might delete another holder's lock"),
			locktest.CancelLeavesNothing).
		Except(locktest.Breaks("no expiry"),
			locktest.ExpiryLetsWaiterIn, locktest.KeepsGivenLease, locktest.LeaseRunsOut,
			locktest.FreedAfterDeath, locktest.ExtendsLease).
		Except(locktest.Holds(), locktest.SurvivesLongHold)
}

func TestNewNeedsClient(t *testing.T) {
	if _, err := setnx.New(nil, setnx.Config{}); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("New(nil) = %v, want ErrInvalid", err)
	}
}
