// Package nodestore builds the locktest subject of a mechanism that keeps its locks
// on several independent redis-servers.
package nodestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/testkit"
)

// Open makes a mechanism's locker on one client for each node, with its keys under
// prefix. A locker that is an io.Closer is closed before its clients.
type Open func(clients []*redis.Client, prefix string) (lock.Locker, error)

// Start starts n redis-servers that know nothing of each other. They are stopped
// when t and its subtests have ended.
func Start(t testing.TB, n int) []*testkit.RedisServer {
	t.Helper()
	servers := make([]*testkit.RedisServer, n)
	for i := range servers {
		servers[i] = testkit.NewRedis(t)
	}
	return servers
}

// Factory makes subjects of a mechanism on the servers, each under a prefix of its
// own. need is how many nodes have to grant a key for it to be held: what the
// suite asks of the store, it is told of that quorum, and what it does to the store
// is done on all nodes. A process reaches all nodes through its one line.
func Factory(mechanism string, servers []*testkit.RedisServer, need int, open Open) locktest.Factory {
	return func(tb testing.TB) locktest.Subject {
		subject := on(servers, tb, mechanism, need, open)
		subject.Alone = func(tb testing.TB) locktest.Subject {
			return on(Start(tb, len(servers)), tb, mechanism, need, open)
		}
		return subject
	}
}

// on is the subject on some servers. Two that ask at once may each get a part of
// the nodes, hence Votes.
func on(servers []*testkit.RedisServer, tb testing.TB, mechanism string, need int, open Open) locktest.Subject {
	v := &view{mechanism: mechanism, prefix: testkit.KeyPrefix(tb), need: need, servers: servers}
	for _, s := range servers {
		v.clients = append(v.clients, s.Client(tb))
	}
	return locktest.Subject{
		Name: mechanism, Remote: true, Votes: true,
		Process: func(tb testing.TB, line *locktest.Line) lock.Locker {
			tb.Helper()
			return v.process(tb, line, open)
		},
		Store: locktest.Store{
			TTL: v.ttl, Shorten: v.shorten, Remove: v.remove, Spoil: v.spoil, Left: v.left, Pause: v.pause,
		},
	}
}

// Dial opens a client of one node for a process. Its commands end with their
// context; its dialling is not repeated, so that a dead node is noticed at once.
func Dial(tb testing.TB, addr string, line *locktest.Line) *redis.Client {
	tb.Helper()
	if line == nil {
		return dial(tb, addr, nil)
	}
	return dial(tb, addr, line.Dial)
}

func dial(tb testing.TB, addr string, dialer func(ctx context.Context, network, addr string) (net.Conn, error)) *redis.Client {
	tb.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: addr, Dialer: dialer, ContextTimeoutEnabled: true, DialerRetries: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		// After as many failures go-redis dials in the background, also when closed.
		PoolSize: 1000, PipelinePoolSize: 1000,
	})
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// DialAll opens a client of each server for a process of its own.
func DialAll(tb testing.TB, servers []*testkit.RedisServer, line *locktest.Line) []*redis.Client {
	tb.Helper()
	clients := make([]*redis.Client, len(servers))
	for i, s := range servers {
		clients[i] = Dial(tb, s.Addr(), line)
	}
	return clients
}

// Has says which of the servers, of those that answer, have a key. A server that
// does not answer is said to have none.
func Has(tb testing.TB, servers []*testkit.RedisServer, key string) []bool {
	tb.Helper()
	has := make([]bool, len(servers))
	for i, s := range servers {
		has[i] = s.Client(tb).Exists(tb.Context(), key).Val() == 1
	}
	return has
}

// view looks at the keys under one prefix on all nodes.
type view struct {
	servers           []*testkit.RedisServer
	clients           []*redis.Client
	mechanism, prefix string
	need              int
}

func (v *view) process(tb testing.TB, line *locktest.Line, open Open) lock.Locker {
	tb.Helper()
	locker, err := open(DialAll(tb, v.servers, line), v.prefix)
	if err != nil {
		tb.Fatalf("opening %s: %v", v.mechanism, err)
	}
	if c, ok := locker.(io.Closer); ok {
		tb.Cleanup(func() {
			if err := c.Close(); err != nil {
				tb.Errorf("closing %s: %v", v.mechanism, err)
			}
		})
	}
	return locker
}

func (v *view) name(key string) string { return redisio.Key(v.prefix, v.mechanism, key, "") }

// ttl is how long a quorum of the nodes still has the key.
func (v *view) ttl(ctx context.Context, key string) (time.Duration, error) {
	ttls := make([]time.Duration, len(v.clients))
	for i, c := range v.clients {
		ttl, err := c.PTTL(ctx, v.name(key)).Result()
		switch {
		case err != nil:
			return 0, err
		case ttl == -1: // go-redis gives the replies -1 and -2 as they are, in ns
			ttl = lock.NoExpiry
		case ttl == -2:
			ttl = 0
		}
		ttls[i] = ttl
	}
	slices.Sort(ttls)
	return ttls[len(ttls)-v.need], nil
}

func (v *view) shorten(ctx context.Context, key string, ttl time.Duration) error {
	return v.everywhere(func(c *redis.Client) error {
		return c.Do(ctx, "PEXPIRE", v.name(key), ttl.Milliseconds(), "XX").Err() // XX: only where it has an end
	})
}

func (v *view) remove(ctx context.Context, key string) error {
	return v.everywhere(func(c *redis.Client) error { return c.Del(ctx, v.name(key)).Err() })
}

func (v *view) spoil(ctx context.Context, key string) error {
	return v.everywhere(func(c *redis.Client) error { return c.RPush(ctx, v.name(key), "not", "a", "lock").Err() })
}

func (v *view) pause(ctx context.Context, d time.Duration) error {
	return v.everywhere(func(c *redis.Client) error {
		return c.Do(ctx, "CLIENT", "PAUSE", d.Milliseconds(), "ALL").Err()
	})
}

func (v *view) everywhere(do func(*redis.Client) error) error {
	var failed []error
	for _, c := range v.clients {
		failed = append(failed, do(c))
	}
	return errors.Join(failed...)
}

// left lists the keys of all nodes.
func (v *view) left(ctx context.Context) ([]string, error) {
	var found []string
	for i, c := range v.clients {
		keys := c.Scan(ctx, 0, v.prefix+"*", 1000).Iterator()
		for keys.Next(ctx) {
			found = append(found, fmt.Sprintf("node %d: %s", i+1, keys.Val()))
		}
		if err := keys.Err(); err != nil {
			return nil, fmt.Errorf("listing keys: %w", err)
		}
	}
	return found, nil
}
