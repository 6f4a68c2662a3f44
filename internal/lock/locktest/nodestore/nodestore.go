// Package nodestore builds the locktest subject of a mechanism that keeps its locks on
// several independent redis-servers.
package nodestore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/redisstore"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/testkit"
)

// Open makes a mechanism's locker on one client for each node, with its keys under
// prefix. A locker that implements io.Closer is closed before its clients.
type Open func(clients []*redis.Client, prefix string) (lock.Locker, error)

// Start starts n independent redis-servers. They stop when t and its subtests have ended.
func Start(t testing.TB, n int) []*testkit.RedisServer {
	t.Helper()
	servers := make([]*testkit.RedisServer, n)
	for i := range servers {
		servers[i] = testkit.NewRedis(t)
	}
	return servers
}

// Factory makes subjects of a mechanism on the servers, each under its own prefix. quorum
// is the number of nodes that have to grant a key for it to be held. What the suite reads
// from the store is the state of a quorum; what it changes is changed on all nodes. A
// process reaches all nodes through one network.
func Factory(mechanism string, servers []*testkit.RedisServer, quorum int, open Open) locktest.Factory {
	return func(tb testing.TB) locktest.Subject {
		subject := on(servers, tb, mechanism, quorum, open)
		subject.Dedicated = func(tb testing.TB) locktest.Subject {
			return on(Start(tb, len(servers)), tb, mechanism, quorum, open)
		}
		return subject
	}
}

// on makes the subject on the servers. Two callers that ask at once may each get a part
// of the nodes, hence SplitVote.
func on(servers []*testkit.RedisServer, tb testing.TB, mechanism string, quorum int, open Open) locktest.Subject {
	v := &view{mechanism: mechanism, prefix: testkit.KeyPrefix(tb), quorum: quorum, servers: servers}
	for _, s := range servers {
		v.clients = append(v.clients, s.Client(tb))
	}
	return locktest.Subject{
		Name: mechanism, Remote: true, SplitVote: true,
		Process: func(tb testing.TB, network *locktest.Network) lock.Locker {
			tb.Helper()
			return v.process(tb, network, open)
		},
		Store: locktest.Store{
			TTL: v.ttl, Shorten: v.shorten, Remove: v.remove, PutWrongKind: v.putWrongKind, Leftovers: v.leftovers, Pause: v.pause,
		},
	}
}

// Dial opens a client of one node for a process. Its commands end with their context. It
// does not repeat dialling, so that a dead node is noticed at once.
func Dial(tb testing.TB, addr string, network *locktest.Network) *redis.Client {
	tb.Helper()
	if network == nil {
		return dial(tb, addr, nil)
	}
	return dial(tb, addr, network.Dial)
}

func dial(
	tb testing.TB, addr string, dialer func(ctx context.Context, network, addr string) (net.Conn, error),
) *redis.Client {
	tb.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: addr, Dialer: dialer, ContextTimeoutEnabled: true, DialerRetries: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		// After so many failures go-redis dials in the background, even if it is closed.
		PoolSize: 1000, PipelinePoolSize: 1000,
	})
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// DialAll opens a client of each server for one process.
func DialAll(tb testing.TB, servers []*testkit.RedisServer, network *locktest.Network) []*redis.Client {
	tb.Helper()
	clients := make([]*redis.Client, len(servers))
	for i, s := range servers {
		clients[i] = Dial(tb, s.Addr(), network)
	}
	return clients
}

// Has reports for each server whether it has a key: false if it does not answer.
func Has(tb testing.TB, servers []*testkit.RedisServer, key string) []bool {
	tb.Helper()
	has := make([]bool, len(servers))
	for i, s := range servers {
		has[i] = s.Client(tb).Exists(tb.Context(), key).Val() == 1
	}
	return has
}

// view reads the keys under one prefix on all nodes.
type view struct {
	servers           []*testkit.RedisServer
	clients           []*redis.Client
	mechanism, prefix string
	quorum            int
}

func (v *view) process(tb testing.TB, network *locktest.Network, open Open) lock.Locker {
	tb.Helper()
	locker, err := open(DialAll(tb, v.servers, network), v.prefix)
	return locktest.Opened(tb, locker, err)
}

func (v *view) name(key string) string { return redisio.Key(v.prefix, v.mechanism, key, "") }

// ttl returns how long a quorum of the nodes still has the key.
func (v *view) ttl(ctx context.Context, key string) (time.Duration, error) {
	ttls := make([]time.Duration, len(v.clients))
	for i, c := range v.clients {
		ttl, err := redisstore.PTTL(ctx, c, v.name(key))
		if err != nil {
			return 0, err
		}
		ttls[i] = ttl
	}
	slices.Sort(ttls)
	return ttls[len(ttls)-v.quorum], nil
}

func (v *view) shorten(ctx context.Context, key string, ttl time.Duration) error {
	return v.everywhere(func(c *redis.Client) error {
		return c.Do(ctx, "PEXPIRE", v.name(key), ttl.Milliseconds(), "XX").Err() // XX: only if the key has an expiry
	})
}

func (v *view) remove(ctx context.Context, key string) error {
	return v.everywhere(func(c *redis.Client) error { return c.Del(ctx, v.name(key)).Err() })
}

func (v *view) putWrongKind(ctx context.Context, key string) error {
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

// leftovers lists the keys of all nodes.
func (v *view) leftovers(ctx context.Context) ([]string, error) {
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
