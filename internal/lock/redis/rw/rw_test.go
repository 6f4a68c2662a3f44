package rw_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/redisstore"
	"seckill/internal/lock/redis/rw"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.ExamplesNeed("redis-server")
	testkit.Main(m)
}

// renewed is the length of renewed leases in the suite: long enough for a busy machine.
const renewed = 2 * time.Second

// open returns a locker, on one server or on a cluster.
func open[C redis.UniversalClient](client C, prefix string) (lock.Locker, error) {
	return rw.New(client, rw.Config{Prefix: prefix, WatchdogTimeout: renewed})
}

func factory(tb testing.TB) locktest.Subject {
	s := redisstore.Factory("rw", open[*redis.Client])(tb)
	s.Renewed, s.DeadWaiterTimeout = renewed, 3*time.Second
	return s
}

// The Locker itself is the writers'.
func TestConformance(t *testing.T) { locktest.Run(t, factory, locktest.NoTokens().AndShared()) }

// The lock keeps the same promises on a cluster as on one server.
func TestConformanceOnCluster(t *testing.T) {
	onCluster := redisstore.ClusterFactory(t, "rw", open[redis.UniversalClient])
	locktest.Run(t, func(tb testing.TB) locktest.Subject {
		s := onCluster(tb)
		s.Renewed, s.DeadWaiterTimeout = renewed, 3*time.Second
		return s
	}, locktest.Only(locktest.NoTokens(), redisstore.ClusterBehaviours()...))
}

func TestDeclaresKeys(t *testing.T) { redisstore.DeclaresKeys(t, open[*redis.Client], nil) }
