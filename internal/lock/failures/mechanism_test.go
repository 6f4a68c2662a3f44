package failures_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/fair"
	"seckill/internal/lock/redis/fenced"
	"seckill/internal/lock/redis/lua"
	"seckill/internal/lock/redis/multi"
	"seckill/internal/lock/redis/naive"
	"seckill/internal/lock/redis/red"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/lock/redis/rw"
	"seckill/internal/lock/redis/session"
	"seckill/internal/lock/redis/setnx"
	"seckill/internal/lock/redis/setnxexpire"
	"seckill/internal/lock/redis/threadid"
	"seckill/internal/lock/redis/uuid"
)

// strong are the mechanisms on one Redis that renew, wait and tell. That of rw is
// its writer.
var strong = []string{"reentrant", "fair", "fenced", "rw"}

// simple are those that take a key for a fixed time, or for ever, and poll.
var simple = []string{"setnx", "setnx-expire", "naive", "thread-id", "uuid", "lua"}

// open makes the locker of a process. Of the configuration the simple ones take
// the prefix only.
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
	return nil, fmt.Errorf("no mechanism %q here", mechanism)
}

// openNodes makes the locker of a process on several nodes.
func openNodes(mechanism string, clients []*redis.Client, config multi.Config) (lock.Locker, error) {
	nodes := make([]multi.Client, len(clients))
	for i, c := range clients {
		nodes[i] = c
	}
	if mechanism == "red" {
		return red.New(nodes, config)
	}
	return multi.New(nodes, config)
}

// process is the locker of a process other than the test's further ones: it shares
// nothing with theirs but the server.
func process(t *testing.T, mechanism string, client redis.UniversalClient, config session.Config) lock.Locker {
	t.Helper()
	l, err := open(mechanism, client, config)
	return closeLater(t, l, err)
}

func closeLater(t *testing.T, l lock.Locker, err error) lock.Locker {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := l.(io.Closer); ok {
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Errorf("closing a locker: %v", err)
			}
		})
	}
	return l
}

// name is a lock's key in Redis.
func name(prefix, mechanism, key string) string { return redisio.Key(prefix, mechanism, key, "") }
