package flawed

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
)

// keyOf returns how a mechanism names its keys in Redis.
func keyOf(prefix, mechanism string) func(key string) string {
	return func(key string) string { return redisio.Key(prefix, mechanism, key, "") }
}

// compareAndDelete deletes a key that has the caller's value.
const compareAndDelete = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`

// insideTry acquires inside try: the finally of a caller that was refused releases, too.
type insideTry struct {
	lock.Locker
	client   redis.UniversalClient
	name     func(key string) string
	compares bool
}

// Acquire implements [lock.Locker].
func (l *insideTry) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	lease, err := l.Locker.Acquire(ctx, key, opts)
	if err == nil || !errors.Is(err, lock.ErrNotAcquired) {
		return lease, err
	}
	if finally := l.release(ctx, l.name(key)); finally != nil {
		return nil, errors.Join(err, finally)
	}
	return nil, err
}

// release is the unlock of a caller that has no lock.
func (l *insideTry) release(ctx context.Context, name string) error {
	if l.compares {
		return l.client.Eval(ctx, compareAndDelete, []string{name}, "the value of a caller that was refused").Err()
	}
	return l.client.Del(ctx, name).Err()
}

// Inspect implements [lock.Inspector].
func (l *insideTry) Inspect(ctx context.Context, key string) (lock.State, error) {
	return inspect(ctx, l.Locker, key)
}

// inspect asks the mechanism that a lock imitates.
func inspect(ctx context.Context, base lock.Locker, key string) (lock.State, error) {
	if i, ok := base.(lock.Inspector); ok {
		return i.Inspect(ctx, key)
	}
	return lock.State{}, errors.ErrUnsupported
}
