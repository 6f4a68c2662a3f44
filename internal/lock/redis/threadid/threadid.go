package threadid

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/plain"
	"seckill/internal/lock/redis/redisio"
)

// New returns a locker that acquires with SET NX PX of a number, and releases with GET, a comparison and DEL. Every
// locker counts its acquisitions from 1.
func New(client plain.Client, config plain.Config) (*plain.Locker, error) {
	var numbers atomic.Uint64
	number := func(*lock.Owners, lock.Owner) string { return strconv.FormatUint(numbers.Add(1), 10) }
	return plain.New(client, config, plain.Mechanism{Name: "thread-id", Value: number, Try: try})
}

func try(ctx context.Context, a plain.Attempt) (lock.Lease, error) {
	until := time.Now().Add(a.TTL)
	won, err := a.Client.SetNX(ctx, a.Name, a.Value, a.TTL).Result()
	if err == nil && !won {
		return nil, &lock.NotAcquiredError{Key: a.Key}
	}
	lease := lock.NewHeld(ctx, lock.Grant{
		Key: a.Key, Owner: a.Owner, Until: until, Release: releaser(a, until, lock.FaultsFrom(ctx)),
	})
	if err != nil {
		_ = lock.Release(ctx, lease) // the server may have granted the key
		return nil, redisio.Error(ctx, err)
	}
	return lock.Deliver(ctx, lease)
}

// releaser returns a release that compares the number before it deletes the key. It remembers a DEL whose outcome is
// unknown: if the next release finds the key gone before the lease could have ended, that DEL deleted it.
func releaser(a plain.Attempt, until time.Time, faults *lock.Faults) func(context.Context) error {
	unknown := false
	return func(ctx context.Context) error {
		found, err := a.Client.Get(ctx, a.Name).Result()
		free := errors.Is(err, redis.Nil)
		switch {
		case err != nil && !free:
			return redisio.Error(ctx, err)
		case found != a.Value && unknown && time.Now().Before(until):
			return nil
		case free:
			return lock.ErrExpired
		case found != a.Value:
			return lock.ErrLost
		}
		if err := faults.Pass(ctx, lock.BetweenCompareAndDelete); err != nil {
			return err
		}
		err = a.Client.Del(ctx, a.Name).Err()
		unknown = err != nil
		return redisio.Error(ctx, err)
	}
}
