package lockjudge_test

import (
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lab/flawed"
	"seckill/internal/lab/lockjudge/serve"
	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m, testkit.Children{"lock": serveLock}) }

// lockEnv names the lock that a child serves to the judge.
const lockEnv = "SECKILL_JUDGED_LOCK"

func serveLock() int {
	name := os.Getenv(lockEnv)
	renews := name == "reentrant" || name == "renewal-once"
	serve.Main(renews, func(client *redis.Client, watchdog time.Duration) (lock.Locker, error) {
		return judged(name, client, watchdog)
	})
	return 0
}

// judged opens a lock of the project, or one whose watchdog gives up.
func judged(name string, client *redis.Client, watchdog time.Duration) (lock.Locker, error) {
	if name == "renewal-once" {
		options := *client.Options()
		options.MaxRetries = -1 // else the client itself tries the renewal again
		return flawed.Open(flawed.RenewalOnce, "lua", flawed.Config{Redis: redis.NewClient(&options), Watchdog: watchdog})
	}
	set, err := lockers.Open(lockers.Servers{Redis: client}, lockers.Config{Watchdog: watchdog})
	if err != nil {
		return nil, err
	}
	return set.Locker(name)
}
