package flawed

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
)

// hashLock is the reentrant lock that four of the documents print: a hash with its owner and a count. Each acquisition
// sets the key's expiry to the lease that it asks for, also if the owner has a longer one already. The documents' field
// is the owner and its value the count; here they are two fields, so that the inspector of the lock reentrant reads them.
type hashLock struct {
	client redis.UniversalClient
	base   lock.Locker
	name   func(key string) string
	owners *lock.Owners
	// keepsEnd leaves the expiry as it is when an inner call releases, as “The evolution of Redis locks” does. The other
	// documents set it again, to the lease of the call that releases.
	keepsEnd bool
}

// takeHash counts one more for the owner, or takes a free lock, and sets the expiry. It replies 0, and 1 if another owner
// has the lock.
//
//	KEYS[1] the lock   ARGV[1] the owner   ARGV[2] the lease, in ms
const takeHash = `
local owner = redis.call('hget', KEYS[1], 'owner')
if owner and owner ~= ARGV[1] then return 1 end
redis.call('hset', KEYS[1], 'owner', ARGV[1])
redis.call('hincrby', KEYS[1], 'count', 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return 0`

// leaveHash counts one less, and deletes the lock at 0. It replies 0, and 1 if the caller is not the owner.
//
//	KEYS[1] the lock   ARGV[1] the owner   ARGV[2] the lease to set again, in ms; 0: none
const leaveHash = `
if redis.call('hget', KEYS[1], 'owner') ~= ARGV[1] then return 1 end
if redis.call('hincrby', KEYS[1], 'count', -1) <= 0 then
  redis.call('del', KEYS[1])
elseif ARGV[2] ~= '0' then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`

// Acquire implements [lock.Locker].
func (l *hashLock) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	if opts.TTL == 0 {
		opts.TTL = lock.DefaultTTL
	}
	owner := l.owners.From(ctx)
	return lock.Polling{}.Acquire(ctx, opts.Wait, func(ctx context.Context) (lock.Lease, error) {
		return l.try(ctx, key, owner, opts.TTL)
	})
}

func (l *hashLock) try(ctx context.Context, key string, owner lock.Owner, ttl time.Duration) (lock.Lease, error) {
	name, start := l.name(key), time.Now()
	taken, err := l.client.Eval(ctx, takeHash, []string{name}, string(owner), ttl.Milliseconds()).Int()
	switch {
	case err != nil:
		return nil, redisio.Error(ctx, err)
	case taken != 0:
		return nil, &lock.NotAcquiredError{Key: key}
	}
	again := ttl.Milliseconds()
	if l.keepsEnd {
		again = 0
	}
	return lock.Deliver(ctx, lock.NewHeld(ctx, lock.Grant{
		Key: key, Owner: owner, Until: start.Add(ttl),
		Release: func(ctx context.Context) error {
			gone, err := l.client.Eval(ctx, leaveHash, []string{name}, string(owner), again).Int()
			if err == nil && gone != 0 {
				return lock.ErrLost
			}
			return redisio.Error(ctx, err)
		},
	}))
}

// Inspect implements [lock.Inspector].
func (l *hashLock) Inspect(ctx context.Context, key string) (lock.State, error) {
	return inspect(ctx, l.base, key)
}
