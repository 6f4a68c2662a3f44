package fair_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/redisstore"
	"seckill/internal/lock/redis/fair"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// renewed is the watchdog's lease in the suite: long enough for a busy machine.
const renewed = 2 * time.Second

// open makes a locker, on one server or on a cluster.
func open[C redis.UniversalClient](client C, prefix string) (lock.Locker, error) {
	return fair.New(client, fair.Config{Prefix: prefix, WatchdogTimeout: renewed})
}

func factory(tb testing.TB) locktest.Subject {
	s := redisstore.Factory("fair", open[*redis.Client])(tb)
	s.Renewed, s.Place = renewed, 3*time.Second
	return s
}

func TestConformance(t *testing.T) { locktest.Run(t, factory, promises()) }

// On a cluster the lock is what it is on one server.
func TestConformanceOnCluster(t *testing.T) {
	onCluster := redisstore.ClusterFactory(t, "fair", open[redis.UniversalClient])
	locktest.Run(t, func(tb testing.TB) locktest.Subject {
		s := onCluster(tb)
		s.Renewed, s.Place = renewed, 3*time.Second
		return s
	}, locktest.Only(promises(), redisstore.ClusterBehaviours()...))
}

func TestDeclaresKeys(t *testing.T) { redisstore.DeclaresKeys(t, open[*redis.Client], nil) }

func promises() locktest.Promises {
	p := make(locktest.Promises)
	for _, b := range locktest.Behaviours() {
		p[b] = locktest.Holds()
	}
	for _, b := range []locktest.Behaviour{
		locktest.TokensGrow, locktest.TokenStaysOnReentry, locktest.TokensOutliveLock, locktest.LinearizableFenced,
	} {
		p[b] = locktest.Breaks("no tokens")
	}
	return p
}
