package uuid

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
)

// Client is what the mechanism needs of go-redis.
type Client interface {
	redisio.Pipeliner // for Inspect
	SetArgs(ctx context.Context, key string, value any, args redis.SetArgs) *redis.StatusCmd
	Get(ctx context.Context, key string) *redis.StringCmd
	Del(ctx context.Context, keys ...string) *redis.IntCmd
}

// Config configures a [Locker]. The zero value is valid.
type Config struct {
	// Prefix comes before every key, so that several installations can share one Redis.
	Prefix string
	// Poll configures how waiters poll.
	Poll lock.Polling
	// ReadsWrongKey makes the mistake of a listing that is often copied: the unlock
	// calls GET with its own value instead of the lock's key. There is no such key, so
	// a holder never recognises its own lock and never deletes it: the key stays until
	// its lease ends. Keys then have a namespace of their own, uuid-wrong-key.
	ReadsWrongKey bool
}

func (c *Config) mechanism() string {
	if c.ReadsWrongKey {
		return "uuid-wrong-key"
	}
	return "uuid"
}

// Locker acquires with SET NX PX, and releases with GET, a comparison and DEL.
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
		return nil, fmt.Errorf("%w: uuid needs a Redis client", lock.ErrInvalid)
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
	value := string(l.owners.New()) + "#" + string(owner)
	return l.config.Poll.Acquire(ctx, opts.Wait, func(ctx context.Context) (lock.Lease, error) {
		return l.try(ctx, key, owner, value, opts.TTL)
	})
}

func (l *Locker) try(
	ctx context.Context, key string, owner lock.Owner, value string, ttl time.Duration,
) (lock.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name := redisio.Key(l.config.Prefix, l.config.mechanism(), key, "")
	start := time.Now()
	found, err := l.client.SetArgs(ctx, name, value, redis.SetArgs{Mode: "NX", Get: true, TTL: ttl}).Result()
	grant := lock.Grant{
		Key: key, Owner: owner, Until: start.Add(ttl),
		Release: l.releaser(name, value, start.Add(ttl), lock.FaultsFrom(ctx)),
	}
	switch {
	case errors.Is(err, redis.Nil), err == nil && found == value:
		return lock.Deliver(ctx, lock.NewHeld(ctx, grant))
	case err != nil:
		_ = lock.Release(ctx, lock.NewHeld(ctx, grant)) // the server may have granted the key
		return nil, redisio.Error(ctx, err)
	}
	_, holder, _ := strings.Cut(found, "#")
	return nil, &lock.NotAcquiredError{Key: key, Holder: lock.Owner(holder)}
}

// releaser returns a release that compares the value and then deletes the key, in two
// commands. It remembers a DEL whose outcome is unknown: if the next release finds the key
// gone before the lease could have ended, that DEL deleted it.
func (l *Locker) releaser(name, value string, until time.Time, faults *lock.Faults) func(context.Context) error {
	reads, unknown := name, false
	if l.config.ReadsWrongKey {
		reads = value
	}
	return func(ctx context.Context) error {
		found, err := l.client.Get(ctx, reads).Result()
		free := errors.Is(err, redis.Nil)
		switch {
		case err != nil && !free:
			return redisio.Error(ctx, err)
		case found != value && unknown && time.Now().Before(until):
			return nil
		case free:
			return lock.ErrExpired
		case found != value:
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

// Inspect implements [lock.Inspector].
func (l *Locker) Inspect(ctx context.Context, key string) (lock.State, error) {
	if err := lock.Check(key, lock.Options{}); err != nil {
		return lock.State{}, err
	}
	state, err := redisio.Inspect(ctx, l.client, redisio.Key(l.config.Prefix, l.config.mechanism(), key, ""))
	if _, holder, ours := strings.Cut(string(state.Owner), "#"); ours {
		state.Owner = lock.Owner(holder)
	}
	return state, err
}
