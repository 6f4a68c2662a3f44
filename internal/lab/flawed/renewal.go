package flawed

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
)

// renewedOnce takes a key with SET NX PX and renews it every third of its lease, until a
// renewal fails.
type renewedOnce struct {
	client redis.UniversalClient
	base   lock.Locker
	name   func(key string) string
	lease  time.Duration
	owners *lock.Owners
}

func newRenewedOnce(c Config) *renewedOnce {
	if c.Watchdog == 0 {
		c.Watchdog = 30 * time.Second
	}
	return &renewedOnce{client: c.Redis, base: c.Base, name: keyOf(c.Prefix, "lua"), lease: c.Watchdog, owners: lock.NewOwners()}
}

// Acquire implements [lock.Locker].
func (l *renewedOnce) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	owner := l.owners.From(ctx)
	return lock.Polling{}.Acquire(ctx, opts.Wait, func(ctx context.Context) (lock.Lease, error) {
		return l.try(ctx, key, owner)
	})
}

func (l *renewedOnce) try(ctx context.Context, key string, owner lock.Owner) (lock.Lease, error) {
	name, value := l.name(key), string(l.owners.New())+"#"+string(owner)
	start := time.Now()
	won, err := l.client.SetNX(ctx, name, value, l.lease).Result()
	if err != nil {
		return nil, redisio.Error(ctx, err)
	}
	if !won {
		return nil, &lock.NotAcquiredError{Key: key}
	}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	held := lock.NewHeld(ctx, lock.Grant{
		Key: key, Owner: owner, Until: start.Add(l.lease), Stop: stop,
		Release: func(ctx context.Context) error {
			<-ended
			return redisio.Error(ctx, l.client.Eval(ctx, compareAndDelete, []string{name}, value).Err())
		},
	})
	go func() {
		defer close(ended)
		l.renew(renewing, held, name, value)
	}()
	return lock.Deliver(ctx, held)
}

// extend renews a key that has the caller's value.
const extend = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`

// renew renews until ctx ends or a renewal fails. Nobody is told of a failure.
func (l *renewedOnce) renew(ctx context.Context, held *lock.Held, name, value string) {
	tick := time.NewTicker(l.lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		start := time.Now()
		if n, err := l.client.Eval(ctx, extend, []string{name}, value, l.lease.Milliseconds()).Int(); err != nil || n == 0 {
			return // the listing logs "Can't update lock expiration", and returns
		}
		held.Renewed(start.Add(l.lease))
	}
}

// Inspect implements [lock.Inspector].
func (l *renewedOnce) Inspect(ctx context.Context, key string) (lock.State, error) {
	return inspect(ctx, l.base, key)
}
