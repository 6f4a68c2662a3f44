// Package plain is what the locks share that are one string on one Redis server and whose waiters poll: setnx,
// setnx-expire, naive, thread-id, uuid, lua and native. Their own folders have what tells them apart: how they acquire,
// and how they release.
package plain

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
)

// Client is what the locks need of go-redis.
type Client interface {
	redis.Scripter
	redisio.Pipeliner // for Inspect
	SetNX(ctx context.Context, key string, value any, expiration time.Duration) *redis.BoolCmd
	SetArgs(ctx context.Context, key string, value any, args redis.SetArgs) *redis.StatusCmd
	PExpire(ctx context.Context, key string, expiration time.Duration) *redis.BoolCmd
	Get(ctx context.Context, key string) *redis.StringCmd
	Del(ctx context.Context, keys ...string) *redis.IntCmd
	Do(ctx context.Context, args ...any) *redis.Cmd // for commands that go-redis has no method for
}

// Config configures a [Locker]. The zero value is valid.
type Config struct {
	// Prefix comes before every key, so that several installations can share one Redis.
	Prefix string
	// Poll configures how waiters poll.
	Poll lock.Polling
}

// Mechanism is what one lock does in its own way.
type Mechanism struct {
	// Name is its name in the catalogue, and its namespace in Redis.
	Name string
	// Value returns what an acquisition writes under the key. nil: the owner, for people to read.
	Value func(owners *lock.Owners, owner lock.Owner) string
	// Renewed is the length of a lease without a TTL of its own, which the mechanism renews. 0: such a lease is fixed,
	// and lasts for [lock.DefaultTTL].
	Renewed time.Duration
	// Try tries once to take the lock. It returns a [lock.NotAcquiredError] if somebody holds it.
	Try func(ctx context.Context, a Attempt) (lock.Lease, error)
}

// Attempt is one acquisition. Each of its polls has the same.
type Attempt struct {
	Client Client
	// Key is the lock as the caller names it, Name its name in Redis.
	Key, Name string
	Owner     lock.Owner
	Value     string
	// TTL is the length of the lease: what the caller asked for, else that of the mechanism.
	TTL time.Duration
	// Renew says that the caller asked for none, and the mechanism renews such a lease.
	Renew bool
}

// Unique returns a value that no other acquisition of any process has: a random part, a counter, and the owner for
// error messages and people to read.
func Unique(owners *lock.Owners, owner lock.Owner) string {
	return string(owners.New()) + "#" + string(owner)
}

// Holder returns the owner in a value of [Unique]; another value is the owner itself.
func Holder(value string) lock.Owner {
	if _, owner, ok := strings.Cut(value, "#"); ok {
		return lock.Owner(owner)
	}
	return lock.Owner(value)
}

// Locker is a [lock.Locker] and [lock.Inspector] of one mechanism.
type Locker struct {
	mechanism Mechanism
	client    Client
	config    Config
	owners    *lock.Owners
}

var (
	_ lock.Locker    = (*Locker)(nil)
	_ lock.Inspector = (*Locker)(nil)
)

// New returns a Locker on client, which may not be nil ([lock.ErrInvalid]).
func New(client Client, config Config, mechanism Mechanism) (*Locker, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: %s needs a Redis client", lock.ErrInvalid, mechanism.Name)
	}
	return &Locker{mechanism: mechanism, client: client, config: config, owners: lock.NewOwners()}, nil
}

// Acquire implements [lock.Locker].
func (l *Locker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	owner := l.owners.From(ctx)
	a := Attempt{
		Client: l.client, Key: key, Name: l.Name(key), Owner: owner, Value: string(owner),
		TTL:   cmp.Or(opts.TTL, l.mechanism.Renewed, lock.DefaultTTL),
		Renew: opts.TTL == 0 && l.mechanism.Renewed > 0,
	}
	if l.mechanism.Value != nil {
		a.Value = l.mechanism.Value(l.owners, owner)
	}
	return l.config.Poll.Acquire(ctx, opts.Wait, func(ctx context.Context) (lock.Lease, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return l.mechanism.Try(ctx, a)
	})
}

// Inspect implements [lock.Inspector]. The owner is the one that the value names. The number of thread-id stands for an
// owner and identifies nobody: holders in two processes may have the same.
func (l *Locker) Inspect(ctx context.Context, key string) (lock.State, error) {
	if err := lock.Check(key, lock.Options{}); err != nil {
		return lock.State{}, err
	}
	state, err := redisio.Inspect(ctx, l.client, l.Name(key))
	if l.mechanism.Value != nil {
		state.Owner = Holder(string(state.Owner))
	}
	return state, err
}

// Name returns the name of a lock in Redis.
func (l *Locker) Name(key string) string {
	return redisio.Key(l.config.Prefix, l.mechanism.Name, key, "")
}
