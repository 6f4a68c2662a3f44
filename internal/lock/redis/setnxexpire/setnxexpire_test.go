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

// The lock keeps the same promises on a cluster as on one server.
func TestConformanceOnCluster(t *testing.T) {
	openCluster := func(client redis.UniversalClient, prefix string) (lock.Locker, error) {
		return setnxexpire.New(client, setnxexpire.Config{Prefix: prefix})
	}
	onCluster := redisstore.ClusterFactory(t, "setnx-expire", openCluster)
	locktest.Run(t, onCluster, locktest.Only(promises(), redisstore.ClusterBehaviours()...))
}

func promises() locktest.Promises {
	return locktest.BlindDelete().
		Except(locktest.Breaks("a grant whose reply was lost is not released, and has no expiry"),
			locktest.CancelLeavesNothing)
}

func TestNewNeedsClient(t *testing.T) {
	if _, err := setnxexpire.New(nil, setnxexpire.Config{}); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("New(nil) = %v, want ErrInvalid", err)
	}
}

// A holder that dies between the two commands leaves the key for ever; one that fails there
// releases it.
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
		_, err = l.Acquire(lock.WithFaults(t.Context(), faults), "seat", lock.Options{TTL: lease})
		return err
	}

	if err := acquireStruck(lock.EffectError); !errors.Is(err, lock.ErrInjected) {
		t.Fatalf("Acquire that fails between the two = %v, want ErrInjected", err)
	}
	if err := acquireStruck(lock.EffectAbandon); !errors.Is(err, lock.ErrAbandoned) {
		t.Fatalf("Acquire that dies between the two = %v, want ErrAbandoned: the failure before it gave the key back", err)
	}
	const never = -1 // as go-redis returns it
	if ttl, err := client.PTTL(t.Context(), redisio.Key(prefix, "setnx-expire", "seat", "")).Result(); err != nil || ttl != never {
		t.Errorf("the dead holder's key ends in %v, %v, want no end", ttl, err)
	}
	if _, err := l.Acquire(t.Context(), "seat", lock.Options{Wait: 4 * lease}); !errors.Is(err, lock.ErrNotAcquired) {
		t.Errorf("Acquire, four leases after the death = %v, want ErrNotAcquired", err)
	}
}
