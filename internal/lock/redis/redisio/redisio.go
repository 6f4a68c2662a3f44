// Package redisio is what the Redis mechanisms have in common: how their keys are
// named and what the errors of go-redis mean to a lock.
package redisio

import (
	"context"
	"errors"
	"fmt"

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
