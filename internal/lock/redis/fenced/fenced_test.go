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

func TestMain(m *testing.M) { testkit.Main(m) }

// renewed is the watchdog's lease in the suite: long enough for a busy machine.
const renewed = 2 * time.Second

// open makes a locker, on one server or on a cluster.
func open[C redis.UniversalClient](client C, prefix string) (lock.Locker, error) {
	return fenced.New(client, fenced.Config{Prefix: prefix, WatchdogTimeout: renewed})
}

func factory(tb testing.TB) locktest.Subject {
	s := redisstore.Factory("fenced", open[*redis.Client])(tb)
	s.Renewed, s.Place = renewed, 3*time.Second
	s.Store.Left = withoutCounters(s.Store.Left)
	alone := s.Alone
	s.Alone = func(tb testing.TB) locktest.Subject {
		s := alone(tb)
		s.Store.Left = withoutCounters(s.Store.Left)
		return s
	}
	return s
}

func TestConformance(t *testing.T) { locktest.Run(t, factory, promises()) }

// On a cluster the lock is what it is on one server.
func TestConformanceOnCluster(t *testing.T) {
	onCluster := redisstore.ClusterFactory(t, "fenced", open[redis.UniversalClient])
	locktest.Run(t, func(tb testing.TB) locktest.Subject {
		s := onCluster(tb)
		s.Renewed, s.Place = renewed, 3*time.Second
		s.Store.Left = withoutCounters(s.Store.Left)
		return s
	}, locktest.Only(promises(), redisstore.ClusterBehaviours()...))
}

func TestDeclaresKeys(t *testing.T) { redisstore.DeclaresKeys(t, open[*redis.Client], nil) }

func promises() locktest.Promises {
	p := make(locktest.Promises)
	for _, b := range locktest.Behaviours() {
		p[b] = locktest.Holds()
	}
	return p
}

// withoutCounters leaves the tokens' counters out of what is left: they outlive
// their locks on purpose, for an hour.
func withoutCounters(left func(context.Context) ([]string, error)) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		found, err := left(ctx)
		return slices.DeleteFunc(found, func(key string) bool { return strings.HasSuffix(key, ":token") }), err
	}
}
