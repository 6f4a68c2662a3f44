// Package redisio is what the Redis mechanisms have in common: how their keys are
// named, what the errors of go-redis mean to a lock, and how a lock that is one string
// is inspected.
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

// Key names a key of a mechanism. Each mechanism has a namespace of its own, so
// that two of them never meet in one value, and the lock's key is the hash tag,
// so that all keys of one lock lie in one slot of a Redis Cluster. A part names a
// further key of the same lock; it may be empty.
func Key(prefix, mechanism, key, part string) string {
	k := prefix + "lock:" + mechanism + ":{" + key + "}"
	if part != "" {
		k += ":" + part
	}
	return k
}

// Error translates an error of go-redis: ctx's error where it is the caller's
// context that ended, [lock.ErrWrongKind] where the key holds something
// else, and otherwise [lock.ErrUnavailable], since whether the command was
// carried out is then unknown. nil and redis.Nil stay as they are.
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

// Pipeliner is a client that sends commands together.
type Pipeliner interface {
	Pipeline() redis.Pipeliner
}

// Inspect says what is known of a lock that is a string under name: Owner is its
// value, whatever a mechanism writes there. Whoever waits polls, and is not known.
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
	switch ttl := left.Val(); ttl { // below 0 Redis answers with a number, not a time
	case gone:
		return state, nil // it ran out between the two commands
	case endless:
		state.TTL = lock.NoExpiry
	default:
		state.TTL = max(ttl, lock.MinTTL) // 0 is its last millisecond
	}
	state.Owner, state.Count = lock.Owner(value.Val()), 1
	return state, nil
}

// What PTTL answers where there is no time to tell.
const (
	endless time.Duration = -1
	gone    time.Duration = -2
)
