package failures_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/redis/fair"
	"seckill/internal/lock/redis/fenced"
	"seckill/internal/lock/redis/lua"
	"seckill/internal/lock/redis/naive"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/lock/redis/rw"
	"seckill/internal/lock/redis/session"
	"seckill/internal/lock/redis/setnx"
	"seckill/internal/lock/redis/setnxexpire"
	"seckill/internal/lock/redis/threadid"
	"seckill/internal/lock/redis/uuid"
)

// mechanism is what the tests have to know about a mechanism on one Redis server.
type mechanism struct {
	name string
	// renews reports that a watchdog renews the lease and tells the holder about a loss.
	// The others have a fixed lease and poll.
	renews bool
	// noExpiry reports that the lock never expires.
	noExpiry bool
	// blindRelease reports that the release deletes the key without a comparison.
	blindRelease bool
	// sameOwners reports that owners of different processes may be equal, so that the
	// release compares but deletes another holder's key.
	sameOwners bool
}

// mechanisms are all mechanisms on one Redis server. The locker of rw is its writer.
func mechanisms() []mechanism {
	return []mechanism{
		{name: "reentrant", renews: true},
		{name: "fair", renews: true},
		{name: "fenced", renews: true},
		{name: "rw", renews: true},
		{name: "lua"},
		{name: "uuid"},
		{name: "thread-id", sameOwners: true},
		{name: "naive", blindRelease: true},
		{name: "setnx-expire", blindRelease: true},
		{name: "setnx", noExpiry: true, blindRelease: true},
	}
}

// selected returns the mechanisms for which keep is true.
func selected(keep func(mechanism) bool) []mechanism {
	return slices.DeleteFunc(mechanisms(), func(m mechanism) bool { return !keep(m) })
}

func renews(m mechanism) bool { return m.renews }

// lease returns options for a lock that is held for ttl: fixed, unless a watchdog renews
// it.
func (m mechanism) lease(ttl time.Duration) lock.Options {
	if m.renews {
		return lock.Options{}
	}
	return lock.Options{TTL: ttl}
}

// open makes the locker of a process. The mechanisms without a watchdog use only the
// prefix of the configuration.
func open(mechanism string, client redis.UniversalClient, config session.Config) (lock.Locker, error) {
	switch mechanism {
	case "reentrant":
		return reentrant.New(client, config)
	case "fair":
		return fair.New(client, config)
	case "fenced":
		return fenced.New(client, config)
	case "rw":
		return rw.New(client, config)
	case "setnx":
		return setnx.New(client, setnx.Config{Prefix: config.Prefix})
	case "setnx-expire":
		return setnxexpire.New(client, setnxexpire.Config{Prefix: config.Prefix})
	case "naive":
		return naive.New(client, naive.Config{Prefix: config.Prefix})
	case "thread-id":
		return threadid.New(client, threadid.Config{Prefix: config.Prefix})
	case "uuid":
		return uuid.New(client, uuid.Config{Prefix: config.Prefix})
	case "lua":
		return lua.New(client, lua.Config{Prefix: config.Prefix})
	}
	return nil, fmt.Errorf("there is no mechanism %q", mechanism)
}

// newProcess makes the locker of another process: it shares only the server with the
// others.
func newProcess(t *testing.T, mechanism string, client redis.UniversalClient, config session.Config) lock.Locker {
	t.Helper()
	l, err := open(mechanism, client, config)
	return locktest.Opened(t, l, err)
}

// redisKey returns a lock's key in Redis.
func redisKey(prefix, mechanism, key string) string { return redisio.Key(prefix, mechanism, key, "") }
