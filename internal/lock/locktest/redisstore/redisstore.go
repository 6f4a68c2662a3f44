// Package redisstore builds the locktest subject of a mechanism that keeps its locks in
// Redis.
package redisstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/testkit"
)

// Open makes a mechanism's locker on a client, with its keys under prefix. A locker that
// implements io.Closer is closed before its client.
type Open func(client *redis.Client, prefix string) (lock.Locker, error)

// Factory makes subjects of a mechanism on the test binary's shared redis-server, each
// under its own prefix. The key of a lock is the one that [redisio.Key] returns for
// mechanism without a part.
func Factory(mechanism string, open Open) locktest.Factory {
	return func(tb testing.TB) locktest.Subject {
		subject := on(testkit.Redis(tb), tb, mechanism, open)
		subject.Dedicated = func(tb testing.TB) locktest.Subject {
			return on(testkit.NewRedis(tb), tb, mechanism, open)
		}
		return subject
	}
}

// on makes the subject on one server.
func on(server *testkit.RedisServer, tb testing.TB, mechanism string, open Open) locktest.Subject {
	v := newView(server, tb, mechanism)
	return locktest.Subject{
		Name: mechanism, Remote: true, Store: v.store(),
		Process: func(tb testing.TB, network *locktest.Network) lock.Locker {
			tb.Helper()
			locker, err := open(v.dial(tb, network), v.prefix)
			return locktest.Opened(tb, locker, err)
		},
	}
}

func newView(server *testkit.RedisServer, tb testing.TB, mechanism string) *view {
	return &view{client: server.Client(tb), addr: server.Addr(), mechanism: mechanism, prefix: testkit.KeyPrefix(tb)}
}

// view reads the keys under one prefix.
type view struct {
	client            redis.UniversalClient
	addr              string
	mechanism, prefix string
}

// dial opens the client of a process. Its commands end with their context. It repeats
// lost commands, as go-redis does by default: a mechanism has to cope with that. It does
// not repeat dialling, so that a cut network is noticed at once.
func (v *view) dial(tb testing.TB, network *locktest.Network) *redis.Client {
	opts := &redis.Options{
		Addr: v.addr, ContextTimeoutEnabled: true, DialerRetries: 1, ClientName: v.prefix,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if network != nil {
		opts.Dialer = network.Dial
	}
	client := redis.NewClient(opts)
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

func (v *view) store() locktest.Store {
	return locktest.Store{
		TTL: v.ttl, Shorten: v.shorten, Remove: v.remove, PutWrongKind: v.putWrongKind, Leftovers: v.leftovers,
		Connections: v.connections, Pause: v.pause,
	}
}

func (v *view) name(key string) string { return redisio.Key(v.prefix, v.mechanism, key, "") }

func (v *view) ttl(ctx context.Context, key string) (time.Duration, error) {
	return PTTL(ctx, v.client, v.name(key))
}

// PTTL returns how long a key still lives: 0 if it does not exist, [lock.NoExpiry] if it
// has no expiry.
func PTTL(ctx context.Context, client redis.UniversalClient, key string) (time.Duration, error) {
	ttl, err := client.PTTL(ctx, key).Result()
	switch {
	case err != nil:
		return 0, err
	case ttl == -1: // go-redis returns the replies -1 and -2 unchanged, as nanoseconds
		return lock.NoExpiry, nil
	case ttl == -2:
		return 0, nil
	}
	return ttl, nil
}

func (v *view) shorten(ctx context.Context, key string, ttl time.Duration) error {
	return v.client.Do(ctx, "PEXPIRE", v.name(key), ttl.Milliseconds(), "XX").Err() // XX: only if the key has an expiry
}

func (v *view) remove(ctx context.Context, key string) error {
	return v.client.Del(ctx, v.name(key)).Err()
}

func (v *view) putWrongKind(ctx context.Context, key string) error {
	return v.client.RPush(ctx, v.name(key), "not", "a", "lock").Err()
}

// leftovers lists keys and channels.
func (v *view) leftovers(ctx context.Context) ([]string, error) {
	var found []string
	keys := v.client.Scan(ctx, 0, v.prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		found = append(found, keys.Val())
	}
	if err := keys.Err(); err != nil {
		return nil, fmt.Errorf("listing keys: %w", err)
	}
	channels, err := v.client.PubSubChannels(ctx, v.prefix+"*").Result()
	if err != nil {
		return nil, fmt.Errorf("listing channels: %w", err)
	}
	return append(found, channels...), nil
}

// connections counts the subscribers among the clients whose name is the prefix.
func (v *view) connections(ctx context.Context) (int, error) {
	list, err := v.client.Do(ctx, "CLIENT", "LIST", "TYPE", "pubsub").Text()
	if err != nil {
		return 0, fmt.Errorf("listing clients: %w", err)
	}
	return strings.Count(list, " name="+v.prefix+" "), nil
}

func (v *view) pause(ctx context.Context, d time.Duration) error {
	return v.client.Do(ctx, "CLIENT", "PAUSE", d.Milliseconds(), "ALL").Err()
}
