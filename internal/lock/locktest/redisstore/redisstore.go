// Package redisstore builds the locktest subject of a mechanism that keeps its
// locks in Redis.
package redisstore

import (
	"context"
	"fmt"
	"io"
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
		server := testkit.Redis(tb)
		v := &view{
			client: server.Client(tb), addr: server.Addr(),
			mechanism: mechanism, prefix: testkit.KeyPrefix(tb),
		}
		return locktest.Subject{
			Remote: true,
			Process: func(tb testing.TB, line *locktest.Line) lock.Locker {
				return v.process(tb, line, open)
			},
			Store: locktest.Store{TTL: v.ttl, Shorten: v.shorten, Remove: v.remove, Spoil: v.spoil, Left: v.left},
		}
	}
}

// view looks at the keys under one prefix.
type view struct {
	client            *redis.Client
	addr              string
	mechanism, prefix string
}

// process opens a client of its own. Its commands end with their context, and it
// repeats lost ones as go-redis does unless told otherwise: a mechanism has to
// live with that. Only its dialling is not repeated, so that a cut line is
// noticed at once.
func (v *view) process(tb testing.TB, line *locktest.Line, open Open) lock.Locker {
	tb.Helper()
	opts := &redis.Options{
		Addr: v.addr, ContextTimeoutEnabled: true, DialerRetries: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if line != nil {
		opts.Dialer = line.Dial
	}
	client := redis.NewClient(opts)
	tb.Cleanup(func() { _ = client.Close() })
	locker, err := open(client, v.prefix)
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
