package uuid

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/plain"
	"seckill/internal/lock/redis/redisio"
)

// New returns a locker that acquires with SET NX PX, and releases with GET, a comparison and DEL.
func New(client plain.Client, config plain.Config) (*plain.Locker, error) {
	return open(client, config, "uuid", func(a plain.Attempt) string { return a.Name })
}

// NewReadingWrongKey returns a locker that makes the mistake of a listing that is often copied: the unlock calls GET
// with its own value instead of the lock's key. There is no such key, so a holder never recognises its own lock and
// never deletes it: the key stays until its lease ends. Its keys have a namespace of their own.
func NewReadingWrongKey(client plain.Client, config plain.Config) (*plain.Locker, error) {
	return open(client, config, "uuid-wrong-key", func(a plain.Attempt) string { return a.Value })
}

func open(client plain.Client, config plain.Config, name string, reads func(plain.Attempt) string) (*plain.Locker, error) {
	return plain.New(client, config, plain.Mechanism{
		Name: name, Value: plain.Unique,
		Try: func(ctx context.Context, a plain.Attempt) (lock.Lease, error) { return try(ctx, a, reads(a)) },
	})
}

func try(ctx context.Context, a plain.Attempt, reads string) (lock.Lease, error) {
	until := time.Now().Add(a.TTL)
	found, err := a.Client.SetArgs(ctx, a.Name, a.Value, redis.SetArgs{Mode: "NX", Get: true, TTL: a.TTL}).Result()
	grant := lock.Grant{
		Key: a.Key, Owner: a.Owner, Until: until, Release: releaser(a, reads, until, lock.FaultsFrom(ctx)),
	}
	switch {
	case errors.Is(err, redis.Nil), err == nil && found == a.Value:
		return lock.Deliver(ctx, lock.NewHeld(ctx, grant))
	case err != nil:
		_ = lock.Release(ctx, lock.NewHeld(ctx, grant)) // the server may have granted the key
		return nil, redisio.Error(ctx, err)
	}
	return nil, &lock.NotAcquiredError{Key: a.Key, Holder: plain.Holder(found)}
}

// releaser returns a release that compares the value and then deletes the key, in two commands. It remembers a DEL
// whose outcome is unknown: if the next release finds the key gone before the lease could have ended, that DEL deleted
// it.
func releaser(a plain.Attempt, reads string, until time.Time, faults *lock.Faults) func(context.Context) error {
	unknown := false
	return func(ctx context.Context) error {
		found, err := a.Client.Get(ctx, reads).Result()
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
