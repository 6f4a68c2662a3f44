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

func TestMain(m *testing.M) { testkit.Main(m) }

// renewed is the watchdog's lease in the suite: long enough for a busy machine.
const renewed = 1500 * time.Millisecond

func open(client redis.UniversalClient, prefix string) (*rw.Locker, error) {
	return rw.New(client, rw.Config{Prefix: prefix, WatchdogTimeout: renewed})
}

func factory(tb testing.TB) locktest.Subject {
	s := redisstore.Factory("rw", func(client *redis.Client, prefix string) (lock.Locker, error) {
		return open(client, prefix)
	})(tb)
	s.Renewed, s.Place = renewed, 3*time.Second
	return s
}

// As a lock, it is its writers'.
func TestConformance(t *testing.T) { locktest.Run(t, factory, promises()) }

func TestShared(t *testing.T) {
	p := make(locktest.Promises)
	for _, b := range locktest.SharedBehaviours() {
		p[b] = locktest.Holds()
	}
	locktest.RunShared(t, factory, p)
}

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
