package naive

import (
	"context"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/plain"
	"seckill/internal/lock/redis/redisio"
)

// New returns a locker that acquires with SET NX PX and releases with an unconditional DEL.
func New(client plain.Client, config plain.Config) (*plain.Locker, error) {
	return plain.New(client, config, plain.Mechanism{Name: "naive", Try: try})
}

func try(ctx context.Context, a plain.Attempt) (lock.Lease, error) {
	// No release reads the value. It shows who holds the key.
	until := time.Now().Add(a.TTL)
	won, err := a.Client.SetNX(ctx, a.Name, a.Value, a.TTL).Result()
	if err != nil {
		return nil, redisio.Error(ctx, err)
	}
	if !won {
		return nil, &lock.NotAcquiredError{Key: a.Key}
	}
	return lock.Deliver(ctx, lock.NewHeld(ctx, lock.Grant{
		Key: a.Key, Owner: a.Owner, Until: until,
		Release: func(ctx context.Context) error {
			return redisio.Error(ctx, a.Client.Del(ctx, a.Name).Err())
		},
	}))
}
