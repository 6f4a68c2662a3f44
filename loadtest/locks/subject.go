package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/fair"
	"seckill/internal/lock/redis/fenced"
	"seckill/internal/lock/redis/lua"
	"seckill/internal/lock/redis/plain"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/lock/redis/rw"
)

// subject is a lock with its settings.
type subject struct {
	name, says string
	ours       bool
	open       func(target) (*locker, error)
}

// locker is a subject in use, with a connection or pool of its own.
type locker struct {
	// acquire waits until it has the key. It ends with ctx, and may give up before if the library has a limit; it is
	// then called again.
	acquire func(ctx context.Context, key string) (release func() error, err error)
	close   func() error
}

// target is where the server is and how to reach it.
type target struct {
	addr string
	dial func(ctx context.Context, network, addr string) (net.Conn, error) // nil: as the library does by itself
}

// Settings that all subjects share. The waits are far longer than should ever occur; the polls are as short as usual
// for a lock that is held for 1 ms.
const (
	waitLimit = 30 * time.Second
	lease     = 30 * time.Second // where a library has no default
	poll      = 5 * time.Millisecond
)

func subjects() []subject {
	return append(ours(), peers()...)
}

// ours are the locks of this project, each with its defaults. To measure another lock, add a line.
func ours() []subject {
	return []subject{
		own("reentrant", "re-entry, renewed lease, waiters of a process in line, woken by message",
			func(c *redis.Client) (lock.Locker, error) { return reentrant.New(c, reentrant.Config{}) }),
		own("fair", "the same in order of arrival, over all processes",
			func(c *redis.Client) (lock.Locker, error) { return fair.New(c, fair.Config{}) }),
		own("fenced", "the same with a growing token",
			func(c *redis.Client) (lock.Locker, error) { return fenced.New(c, fenced.Config{}) }),
		own("rw", "the same, locked for writing",
			func(c *redis.Client) (lock.Locker, error) { return rw.New(c, rw.Config{}) }),
		own("lua", "SET NX PX and a script that compares and deletes, asked again every 10 ms",
			func(c *redis.Client) (lock.Locker, error) { return lua.New(c, plain.Config{}) }),
	}
}

// peers are the libraries: first with their defaults, then with the settings that suit these scenarios best.
func peers() []subject {
	return []subject{
		{name: "go-redis by hand", says: "SET NX PX and a script that compares and deletes, asked again every 5 ms", open: byHand(compareAndDelete, "")},
		// With the commands that reentrant sends, which check for waiters, what is left is the difference of the
		// clients.
		{name: "go-redis by hand, as reentrant", says: "SET NX PX and reentrant's release, asked again every 5 ms", open: byHand(deleteUnlessAwaited, "", ":queue")},
		{name: "redsync", says: "go-redsync/redsync with its defaults: asked again after 50 to 250 ms, 32 times", open: redsyncWith()},
		{name: "redsync 5 ms", says: "asked again every 5 ms, until the limit",
			open: redsyncWith(redsync.WithRetryDelay(poll), redsync.WithTries(int(waitLimit/poll)))},
		// Its default does not wait at all, and differs in nothing else.
		{name: "redislock 5 ms", says: "bsm/redislock, LinearBackoff(5 ms)", open: openRedislock},
		{name: "rueidislock", says: "redis/rueidis/rueidislock with its defaults: two of three keys", open: rueidislockWith(rueidislock.LockerOption{})},
		{name: "rueidislock 1 key", says: "KeyMajority 1, NoLoopTracking",
			open: rueidislockWith(rueidislock.LockerOption{KeyMajority: 1, NoLoopTracking: true})},
		{name: "rueidislock 1 key, no cache", says: "KeyMajority 1, DisableCache: asked again every 20 ms instead of being woken",
			open: rueidislockWith(rueidislock.LockerOption{KeyMajority: 1, ClientOption: rueidis.ClientOption{DisableCache: true}})},
	}
}

// newClient returns the client of the libraries that use go-redis. It has the defaults, except that commands end at the
// deadline of their context and that each goroutine has a connection, which makes all of them faster.
func newClient(t target) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: t.addr, Dialer: t.dial, ContextTimeoutEnabled: true, PoolSize: 64})
}

// own opens a mechanism of this project. If it has a watchdog, its leases are renewed, since the options give no lease.
func own(name, says string, open func(*redis.Client) (lock.Locker, error)) subject {
	return subject{name: name, says: says, ours: true, open: func(t target) (*locker, error) {
		client := newClient(t)
		mechanism, err := open(client)
		if err != nil {
			return nil, errors.Join(err, client.Close())
		}
		return &locker{
			acquire: func(ctx context.Context, key string) (func() error, error) {
				lease, err := mechanism.Acquire(ctx, key, lock.Options{Wait: waitLimit})
				if err != nil {
					return nil, err
				}
				return func() error { return lease.Release(context.WithoutCancel(ctx)) }, nil
			},
			close: func() error {
				if c, ok := mechanism.(io.Closer); ok {
					return errors.Join(c.Close(), client.Close())
				}
				return client.Close()
			},
		}, nil
	}}
}

// compareAndDelete is the release that programs write without a library.
const compareAndDelete = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`

// deleteUnlessAwaited executes the commands of reentrant's release_free.lua.
const deleteUnlessAwaited = `if redis.call("exists", KEYS[2]) == 0 and redis.call("get", KEYS[1]) == ARGV[1] then
	return redis.call("del", KEYS[1]) end return 0`

// byHand returns the lock that programs write without a library, with a script that releases it. The script's keys are
// that of the lock with these endings.
func byHand(release string, endings ...string) func(target) (*locker, error) {
	script := redis.NewScript(release)
	take := redis.SetArgs{Mode: "NX", TTL: lease}
	return func(t target) (*locker, error) {
		client := newClient(t)
		return &locker{
			acquire: func(ctx context.Context, key string) (func() error, error) {
				value := rand.Text()
				for {
					err := client.SetArgs(ctx, key, value, take).Err()
					if err == nil {
						break
					}
					if !errors.Is(err, redis.Nil) {
						return nil, err
					}
					select {
					case <-ctx.Done():
						return nil, ctx.Err()
					case <-time.After(poll):
					}
				}
				return func() error {
					keys := make([]string, len(endings))
					for i, ending := range endings {
						keys[i] = key + ending
					}
					n, err := script.Run(context.WithoutCancel(ctx), client, keys, value).Int()
					if err == nil && n == 0 {
						err = errNotHeld
					}
					return err
				}, nil
			},
			close: client.Close,
		}, nil
	}
}

var errNotHeld = errors.New("the lock was not held any more")

func redsyncWith(options ...redsync.Option) func(target) (*locker, error) {
	return func(t target) (*locker, error) {
		client := newClient(t)
		rs := redsync.New(goredis.NewPool(client))
		return &locker{
			acquire: func(ctx context.Context, key string) (func() error, error) {
				m := rs.NewMutex(key, options...)
				if err := m.LockContext(ctx); err != nil {
					return nil, err
				}
				return func() error {
					ok, err := m.UnlockContext(context.WithoutCancel(ctx))
					if err == nil && !ok {
						err = errNotHeld
					}
					return err
				}, nil
			},
			close: client.Close,
		}, nil
	}
}

func openRedislock(t target) (*locker, error) {
	client := newClient(t)
	locks := redislock.New(client)
	return &locker{
		acquire: func(ctx context.Context, key string) (func() error, error) {
			l, err := locks.Obtain(ctx, key, lease, &redislock.Options{RetryStrategy: redislock.LinearBackoff(poll)})
			if err != nil {
				return nil, err
			}
			return func() error { return l.Release(context.WithoutCancel(ctx)) }, nil
		},
		close: client.Close,
	}, nil
}

func rueidislockWith(option rueidislock.LockerOption) func(target) (*locker, error) {
	return func(t target) (*locker, error) {
		option := option
		option.ClientOption.InitAddress = []string{t.addr}
		if t.dial != nil {
			option.ClientOption.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return t.dial(ctx, "tcp", addr)
			}
		}
		locks, err := rueidislock.NewLocker(option)
		if err != nil {
			return nil, err
		}
		return &locker{
			acquire: func(ctx context.Context, key string) (func() error, error) {
				_, cancel, err := locks.WithContext(ctx, key)
				if err != nil {
					return nil, err
				}
				return func() error { cancel(); return nil }, nil // it waits for the reply, but does not tell it
			},
			close: func() error { locks.Close(); return nil },
		}, nil
	}
}
