package setnxexpire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
)

// Client is what the mechanism needs of go-redis.
type Client interface {
	redisio.Pipeliner // for Inspect
	SetNX(ctx context.Context, key string, value any, expiration time.Duration) *redis.BoolCmd
	PExpire(ctx context.Context, key string, expiration time.Duration) *redis.BoolCmd
	Del(ctx context.Context, keys ...string) *redis.IntCmd
}

// Config configures a [Locker]. The zero value is valid.
type Config struct {
	// Prefix comes before every key, so that several installations can share one Redis.
	Prefix string
	// Poll configures how waiters poll.
	Poll lock.Polling
}

// Locker acquires with SETNX and PEXPIRE, and releases with an unconditional DEL.
type Locker struct {
	client Client
	config Config
	owners *lock.Owners
}

var (
	_ lock.Locker    = (*Locker)(nil)
	_ lock.Inspector = (*Locker)(nil)
)

// New returns a Locker on client, which may not be nil ([lock.ErrInvalid]).
func New(client Client, config Config) (*Locker, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: setnx-expire needs a Redis client", lock.ErrInvalid)
	}
	return &Locker{client: client, config: config, owners: lock.NewOwners()}, nil
}

// Acquire implements [lock.Locker]. The lease is fixed: opts.TTL, or [lock.DefaultTTL]
// where that is 0.
func (l *Locker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	if opts.TTL == 0 {
		opts.TTL = lock.DefaultTTL
	}
	owner := l.owners.From(ctx)
	return l.config.Poll.Acquire(ctx, opts.Wait, func(ctx context.Context) (lock.Lease, error) {
		return l.try(ctx, key, owner, opts.TTL)
	})
}

func (l *Locker) try(ctx context.Context, key string, owner lock.Owner, ttl time.Duration) (lock.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name := redisio.Key(l.config.Prefix, "setnx-expire", key, "")
	// No release reads the value. It shows who holds the key.
	won, err := l.client.SetNX(ctx, name, string(owner), 0).Result()
	if err != nil {
		return nil, redisio.Error(ctx, err)
	}
	if !won {
		return nil, &lock.NotAcquiredError{Key: key}
	}
	until, err := l.expire(ctx, name, ttl)
	lease := lock.NewHeld(ctx, lock.Grant{
		Key: key, Owner: owner, Until: until,
		Release: func(ctx context.Context) error {
			return redisio.Error(ctx, l.client.Del(ctx, name).Err())
		},
	})
	switch {
	case err == nil:
		return lock.Deliver(ctx, lease)
	case errors.Is(err, lock.ErrAbandoned):
		lease.Abandon() // the key stays without an expiry
	default:
		_ = lock.Release(ctx, lease) // the caller needs the first error
	}
	return nil, err
}

// expire sets the expiry of a key that was just taken, and returns when it is. Until
// then the key has none.
func (l *Locker) expire(ctx context.Context, name string, ttl time.Duration) (until time.Time, err error) {
	if err := lock.FaultsFrom(ctx).Pass(ctx, lock.BetweenSetNXAndExpire); err != nil {
		return time.Time{}, err
	}
	until = time.Now().Add(ttl)
	return until, redisio.Error(ctx, l.client.PExpire(ctx, name, ttl).Err())
}

// Inspect implements [lock.Inspector].
func (l *Locker) Inspect(ctx context.Context, key string) (lock.State, error) {
	if err := lock.Check(key, lock.Options{}); err != nil {
		return lock.State{}, err
	}
	return redisio.Inspect(ctx, l.client, redisio.Key(l.config.Prefix, "setnx-expire", key, ""))
}
