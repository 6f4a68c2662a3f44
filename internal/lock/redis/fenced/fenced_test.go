package fenced_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/redisstore"
	"seckill/internal/lock/redis/fenced"
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
	return fenced.New(client, fenced.Config{Prefix: prefix, WatchdogTimeout: renewed})
}

func factory(tb testing.TB) locktest.Subject {
	s := redisstore.Factory("fenced", open[*redis.Client])(tb)
	s.Renewed, s.DeadWaiterTimeout = renewed, 3*time.Second
	s.Store.Leftovers = withoutCounters(s.Store.Leftovers)
	dedicated := s.Dedicated
	s.Dedicated = func(tb testing.TB) locktest.Subject {
		s := dedicated(tb)
		s.Store.Leftovers = withoutCounters(s.Store.Leftovers)
		return s
	}
	return s
}

func TestConformance(t *testing.T) { locktest.Run(t, factory, locktest.AllHold()) }

// The lock keeps the same promises on a cluster as on one server.
func TestConformanceOnCluster(t *testing.T) {
	onCluster := redisstore.ClusterFactory(t, "fenced", open[redis.UniversalClient])
	locktest.Run(t, func(tb testing.TB) locktest.Subject {
		s := onCluster(tb)
		s.Renewed, s.DeadWaiterTimeout = renewed, 3*time.Second
		s.Store.Leftovers = withoutCounters(s.Store.Leftovers)
		return s
	}, locktest.Only(locktest.AllHold(), redisstore.ClusterBehaviours()...))
}

func TestDeclaresKeys(t *testing.T) { redisstore.DeclaresKeys(t, open[*redis.Client], nil) }

// withoutCounters ignores the counters of the tokens, which outlive their locks for an hour
// on purpose.
func withoutCounters(left func(context.Context) ([]string, error)) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		found, err := left(ctx)
		return slices.DeleteFunc(found, func(key string) bool { return strings.HasSuffix(key, ":token") }), err
	}
}
