package lua

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/plain"
	"seckill/internal/lock/redis/redisio"
)

//go:embed release.lua
var releaseLua string

// New returns a locker that acquires with SET NX PX, and releases with a script that compares and deletes.
func New(client plain.Client, config plain.Config) (*plain.Locker, error) {
	release := redis.NewScript(releaseLua)
	return plain.New(client, config, plain.Mechanism{
		Name: "lua", Value: plain.Unique,
		Try: func(ctx context.Context, a plain.Attempt) (lock.Lease, error) { return try(ctx, a, release) },
	})
}

func try(ctx context.Context, a plain.Attempt, release *redis.Script) (lock.Lease, error) {
	until := time.Now().Add(a.TTL)
	found, err := a.Client.SetArgs(ctx, a.Name, a.Value, redis.SetArgs{Mode: "NX", Get: true, TTL: a.TTL}).Result()
	grant := lock.Grant{Key: a.Key, Owner: a.Owner, Until: until, Release: releaser(a, release, until)}
	switch {
	case errors.Is(err, redis.Nil), err == nil && found == a.Value:
		return lock.Deliver(ctx, lock.NewHeld(ctx, grant))
	case err != nil:
		_ = lock.Release(ctx, lock.NewHeld(ctx, grant)) // the server may have granted the key
		return nil, redisio.Error(ctx, err)
	}
	return nil, &lock.NotAcquiredError{Key: a.Key, Holder: plain.Holder(found)}
}

// releaser returns a release that remembers a call whose outcome is unknown: if the next one finds the key gone before
// the lease could have ended, that call deleted it.
func releaser(a plain.Attempt, release *redis.Script, until time.Time) func(context.Context) error {
	unknown := false
	return func(ctx context.Context) error {
		reply, err := release.Run(ctx, a.Client, []string{a.Name}, a.Value).Int()
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
