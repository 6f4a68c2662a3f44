// Package redisstore builds the locktest subject of a mechanism that keeps its
// locks in Redis.
package redisstore

import (
	"context"
	"fmt"
	"io"
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

// Open makes a mechanism's locker on a client, with its keys under prefix. A
// locker that is an io.Closer is closed before its client.
type Open func(client *redis.Client, prefix string) (lock.Locker, error)

// Factory makes subjects of a mechanism on the test binary's shared redis-server,
// each under a prefix of its own. The key of a lock is the one that
// [redisio.Key] gives for mechanism without a part.
func Factory(mechanism string, open Open) locktest.Factory {
	return func(tb testing.TB) locktest.Subject {
		subject := on(testkit.Redis(tb), tb, mechanism, open)
		subject.Alone = func(tb testing.TB) locktest.Subject {
			return on(testkit.NewRedis(tb), tb, mechanism, open)
		}
		return subject
	}
}

// on is the subject on one server.
func on(server *testkit.RedisServer, tb testing.TB, mechanism string, open Open) locktest.Subject {
	v := newView(server, tb, mechanism)
	return locktest.Subject{
		Name: mechanism, Remote: true, Store: v.store(),
		Process: func(tb testing.TB, line *locktest.Line) lock.Locker {
			tb.Helper()
			locker, err := open(v.dial(tb, line), v.prefix)
			closeLater(tb, mechanism, locker, err)
			return locker
		},
	}
}

func newView(server *testkit.RedisServer, tb testing.TB, mechanism string) *view {
	return &view{client: server.Client(tb), addr: server.Addr(), mechanism: mechanism, prefix: testkit.KeyPrefix(tb)}
}

// closeLater ends what a locker runs in the background, before its client is closed.
func closeLater(tb testing.TB, mechanism string, locker any, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("opening %s: %v", mechanism, err)
	}
	if c, ok := locker.(io.Closer); ok {
		tb.Cleanup(func() {
			if err := c.Close(); err != nil {
				tb.Errorf("closing %s: %v", mechanism, err)
			}
		})
	}
}

// view looks at the keys under one prefix.
type view struct {
	client            redis.UniversalClient
	addr              string
	mechanism, prefix string
}

// dial opens a process's client. Its commands end with their context, and it
// repeats lost ones as go-redis does unless told otherwise: a mechanism has to
// live with that. Only its dialling is not repeated, so that a cut line is
// noticed at once.
func (v *view) dial(tb testing.TB, line *locktest.Line) *redis.Client {
	opts := &redis.Options{
		Addr: v.addr, ContextTimeoutEnabled: true, DialerRetries: 1, ClientName: v.prefix,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if line != nil {
		opts.Dialer = line.Dial
	}
	client := redis.NewClient(opts)
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

func (v *view) store() locktest.Store {
	return locktest.Store{
		TTL: v.ttl, Shorten: v.shorten, Remove: v.remove, Spoil: v.spoil, Left: v.left,
		Connections: v.connections, Pause: v.pause,
	}
}

func (v *view) name(key string) string { return redisio.Key(v.prefix, v.mechanism, key, "") }

func (v *view) ttl(ctx context.Context, key string) (time.Duration, error) {
	ttl, err := v.client.PTTL(ctx, v.name(key)).Result()
	switch {
	case err != nil:
		return 0, err
	case ttl == -1: // go-redis gives the replies -1 and -2 as they are, in ns
		return lock.NoExpiry, nil
	case ttl == -2:
		return 0, nil
	}
	return ttl, nil
}

func (v *view) shorten(ctx context.Context, key string, ttl time.Duration) error {
	return v.client.Do(ctx, "PEXPIRE", v.name(key), ttl.Milliseconds(), "XX").Err() // XX: only where it has an end
}

func (v *view) remove(ctx context.Context, key string) error {
	return v.client.Del(ctx, v.name(key)).Err()
}

func (v *view) spoil(ctx context.Context, key string) error {
	return v.client.RPush(ctx, v.name(key), "not", "a", "lock").Err()
}

// left lists keys and channels.
func (v *view) left(ctx context.Context) ([]string, error) {
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

// connections counts the subscribers among the clients that bear the prefix as
// their name.
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
