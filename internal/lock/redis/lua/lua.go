package lua

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
)

//go:embed release.lua
var releaseLua string

// Client is what the mechanism needs of go-redis.
type Client interface {
	redis.Scripter
	redisio.Pipeliner // for Inspect
	SetArgs(ctx context.Context, key string, value any, args redis.SetArgs) *redis.StatusCmd
}

// Config configures a [Locker]. The zero value is valid.
type Config struct {
	// Prefix comes before every key, so that several installations can share one Redis.
	Prefix string
	// Poll configures how waiters poll.
	Poll lock.Polling
}

// Locker acquires with SET NX PX, and releases with a script that compares and deletes.
type Locker struct {
	client  Client
	config  Config
	owners  *lock.Owners
	release *redis.Script
}

var (
	_ lock.Locker    = (*Locker)(nil)
	_ lock.Inspector = (*Locker)(nil)
)

// New returns a Locker on client, which may not be nil ([lock.ErrInvalid]).
func New(client Client, config Config) (*Locker, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: lua needs a Redis client", lock.ErrInvalid)
	}
	return &Locker{client: client, config: config, owners: lock.NewOwners(), release: redis.NewScript(releaseLua)}, nil
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
	name := redisio.Key(l.config.Prefix, "lua", key, "")
	start := time.Now()
	found, err := l.client.SetArgs(ctx, name, value, redis.SetArgs{Mode: "NX", Get: true, TTL: ttl}).Result()
	grant := lock.Grant{
		Key: key, Owner: owner, Until: start.Add(ttl), Release: l.releaser(name, value, start.Add(ttl)),
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

// releaser returns a release that remembers a call whose outcome is unknown: if the next
// one finds the key gone before the lease could have ended, that call deleted it.
func (l *Locker) releaser(name, value string, until time.Time) func(context.Context) error {
	unknown := false
	return func(ctx context.Context) error {
		reply, err := l.release.Run(ctx, l.client, []string{name}, value).Int()
		switch {
		case err != nil:
			unknown = true
			return redisio.Error(ctx, err)
		case reply == 1, unknown && time.Now().Before(until):
			return nil
		case reply == 0:
			return lock.ErrExpired
		}
		return lock.ErrLost
	}
}

// Inspect implements [lock.Inspector].
func (l *Locker) Inspect(ctx context.Context, key string) (lock.State, error) {
	if err := lock.Check(key, lock.Options{}); err != nil {
		return lock.State{}, err
	}
	state, err := redisio.Inspect(ctx, l.client, redisio.Key(l.config.Prefix, "lua", key, ""))
	if _, holder, ours := strings.Cut(string(state.Owner), "#"); ours {
		state.Owner = lock.Owner(holder)
	}
	return state, err
}
