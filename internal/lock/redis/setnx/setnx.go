package setnx

import (
	"context"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/plain"
	"seckill/internal/lock/redis/redisio"
)

// New returns a locker that acquires with SETNX and releases with DEL. It ignores the lease that a caller asks for.
func New(client plain.Client, config plain.Config) (*plain.Locker, error) {
	return plain.New(client, config, plain.Mechanism{Name: "setnx", Try: try})
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
	return lock.Deliver(ctx, lock.NewHeld(ctx, lock.Grant{
		Key: a.Key, Owner: a.Owner,
		Release: func(ctx context.Context) error {
			return redisio.Error(ctx, a.Client.Del(ctx, a.Name).Err())
		},
	}))
}
