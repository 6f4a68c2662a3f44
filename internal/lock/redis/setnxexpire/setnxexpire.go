package setnxexpire

import (
	"context"
	"errors"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/plain"
	"seckill/internal/lock/redis/redisio"
)

// New returns a locker that acquires with SETNX and PEXPIRE, and releases with an unconditional DEL.
func New(client plain.Client, config plain.Config) (*plain.Locker, error) {
	return plain.New(client, config, plain.Mechanism{Name: "setnx-expire", Try: try})
}

func try(ctx context.Context, a plain.Attempt) (lock.Lease, error) {
	// No release reads the value. It shows who holds the key.
	won, err := a.Client.SetNX(ctx, a.Name, a.Value, 0).Result()
	if err != nil {
		return nil, redisio.Error(ctx, err)
	}
	if !won {
		return nil, &lock.NotAcquiredError{Key: a.Key}
	}
	until, err := expire(ctx, a)
	lease := lock.NewHeld(ctx, lock.Grant{
		Key: a.Key, Owner: a.Owner, Until: until,
		Release: func(ctx context.Context) error {
			return redisio.Error(ctx, a.Client.Del(ctx, a.Name).Err())
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

// expire sets the expiry of a key that was just taken, and returns when it is. Until then the key has none.
func expire(ctx context.Context, a plain.Attempt) (until time.Time, err error) {
	if err := lock.FaultsFrom(ctx).Pass(ctx, lock.BetweenSetNXAndExpire); err != nil {
		return time.Time{}, err
	}
	until = time.Now().Add(a.TTL)
	return until, redisio.Error(ctx, a.Client.PExpire(ctx, a.Name, a.TTL).Err())
}
