package threadid

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
)

// Client is what the mechanism needs of go-redis.
type Client interface {
	redisio.Pipeliner // for Inspect
	SetNX(ctx context.Context, key string, value any, expiration time.Duration) *redis.BoolCmd
	Get(ctx context.Context, key string) *redis.StringCmd
	Del(ctx context.Context, keys ...string) *redis.IntCmd
}

// Config configures a [Locker]. The zero value is valid.
type Config struct {
	// Prefix comes before every key, so that several installations can share one Redis.
	Prefix string
	// Poll configures how waiters poll.
	Poll lock.Polling
}

// Locker acquires with SET NX PX of a number, and releases with GET, a comparison and
// DEL.
type Locker struct {
	client  Client
	config  Config
	owners  *lock.Owners
	numbers atomic.Uint64 // the last one used; every Locker starts at 1
}

var (
	_ lock.Locker    = (*Locker)(nil)
	_ lock.Inspector = (*Locker)(nil)
)

// New returns a Locker on client, which may not be nil ([lock.ErrInvalid]).
func New(client Client, config Config) (*Locker, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: thread-id needs a Redis client", lock.ErrInvalid)
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
	number := strconv.FormatUint(l.numbers.Add(1), 10)
	return l.config.Poll.Acquire(ctx, opts.Wait, func(ctx context.Context) (lock.Lease, error) {
		return l.try(ctx, key, owner, number, opts.TTL)
	})
}

func (l *Locker) try(
	ctx context.Context, key string, owner lock.Owner, number string, ttl time.Duration,
) (lock.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name := redisio.Key(l.config.Prefix, "thread-id", key, "")
	until := time.Now().Add(ttl)
	won, err := l.client.SetNX(ctx, name, number, ttl).Result()
	if err == nil && !won {
		return nil, &lock.NotAcquiredError{Key: key}
	}
	lease := lock.NewHeld(ctx, lock.Grant{
		Key: key, Owner: owner, Until: until,
		Release: l.releaser(name, number, until, lock.FaultsFrom(ctx)),
	})
	if err != nil {
		_ = lock.Release(ctx, lease) // the server may have granted the key
		return nil, redisio.Error(ctx, err)
	}
	return lock.Deliver(ctx, lease)
}

// releaser returns a release that compares the number before it deletes the key. It
// remembers a DEL whose outcome is unknown: if the next release finds the key gone before
// the lease could have ended, that DEL deleted it.
func (l *Locker) releaser(name, number string, until time.Time, faults *lock.Faults) func(context.Context) error {
	unknown := false
	return func(ctx context.Context) error {
		found, err := l.client.Get(ctx, name).Result()
		free := errors.Is(err, redis.Nil)
		switch {
		case err != nil && !free:
			return redisio.Error(ctx, err)
		case found != number && unknown && time.Now().Before(until):
			return nil
		case free:
			return lock.ErrExpired
		case found != number:
			return lock.ErrLost
		}
		if err := faults.Pass(ctx, lock.BetweenCompareAndDelete); err != nil {
			return err
		}
		err = l.client.Del(ctx, name).Err()
		unknown = err != nil
		return redisio.Error(ctx, err)
	}
}

// Inspect implements [lock.Inspector]. Redis stores only the number, which stands for the
// owner here. It identifies nobody: holders in two processes may have the same number.
func (l *Locker) Inspect(ctx context.Context, key string) (lock.State, error) {
	if err := lock.Check(key, lock.Options{}); err != nil {
		return lock.State{}, err
	}
	return redisio.Inspect(ctx, l.client, redisio.Key(l.config.Prefix, "thread-id", key, ""))
}
