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
const renewed = 1500 * time.Millisecond

func TestConformance(t *testing.T) {
	factory := redisstore.Factory("fair", func(client *redis.Client, prefix string) (lock.Locker, error) {
		return fair.New(client, fair.Config{Prefix: prefix, WatchdogTimeout: renewed})
	})
	subject := func(tb testing.TB) locktest.Subject {
		s := factory(tb)
		s.Renewed, s.Place = renewed, 3*time.Second
		return s
	}
	locktest.Run(t, subject, promises())
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
