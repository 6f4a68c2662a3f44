// Package redisio is shared by the Redis mechanisms: the names of their keys, the meaning of go-redis' errors for a
// lock, and the inspection of a lock that is one string.
package redisio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
)

// Key returns the name of a key in Redis. Each mechanism has its own namespace, so that two of them never use the same
// key. The lock's key is the hash tag, so that all keys of one lock are in one slot of a Redis Cluster. part names a
// further key of the same lock; it may be empty.
func Key(prefix, mechanism, key, part string) string {
	if part == "" {
		return prefix + "lock:" + mechanism + ":{" + key + "}"
	}
	return prefix + "lock:" + mechanism + ":{" + key + "}:" + part
}

// Error translates an error of go-redis:
//
//	nil, redis.Nil       unchanged
//	ctx has ended        the error of ctx
//	WRONGTYPE            lock.ErrWrongKind
//	all others           lock.ErrUnavailable: whether the server ran the command is unknown
func Error(ctx context.Context, err error) error {
	switch {
	case err == nil || errors.Is(err, redis.Nil):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return fmt.Errorf("%w: %w", lock.ErrWrongKind, err)
	}
	return fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
}

// Pipeliner is a client that sends commands in one pipeline.
type Pipeliner interface {
	Pipeline() redis.Pipeliner
}

// Inspect returns the state of a lock that is a string under name. Its Owner is the whole value, whatever the mechanism
// writes there. The waiters poll, so their number is unknown.
func Inspect(ctx context.Context, client Pipeliner, name string) (lock.State, error) {
	both := client.Pipeline()
	value, left := both.Get(ctx, name), both.PTTL(ctx, name)
	_, _ = both.Exec(ctx) // each command has its own error
	state := lock.State{Waiting: lock.WaitingUnknown}
	switch err := cmp.Or(Error(ctx, value.Err()), Error(ctx, left.Err())); {
	case errors.Is(err, redis.Nil):
		return state, nil
	case err != nil:
		return lock.State{}, err
	}
	switch ttl := left.Val(); ttl { // a negative reply is a code
	case noKey:
		return state, nil // it expired between the two commands
	case noExpiry:
		state.TTL = lock.NoExpiry
	default:
		state.TTL = max(ttl, lock.MinTTL) // 0 is its last millisecond
	}
	state.Owner, state.Count = lock.Owner(value.Val()), 1
	return state, nil
}

// Replies to PTTL that are no time.
const (
	noExpiry time.Duration = -1
	noKey    time.Duration = -2
)
