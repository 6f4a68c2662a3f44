package flawed

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
)

// multiLock takes the lock on one node after the other, as “Redisson in detail” reads MultiLock: each
// for twice the wait, since the lease of the first would else begin long before the last is taken. At the end it
// sets the lease that was asked for, on all of them. If a node refuses, it releases what it has, and
// begins with the first again, while there is time.
type multiLock struct {
	nodes []*redis.Client
	base  lock.Locker
	name  func(key string) string
	// longest is what one node may take, as with redlock.
	longest time.Duration
	owners  *lock.Owners
}

func newMultiLock(c Config) *multiLock {
	l := &multiLock{nodes: c.Nodes, base: c.Base, name: keyOf(c.Prefix, "multi"), longest: c.NodeTimeout, owners: lock.NewOwners()}
	if l.longest == 0 {
		l.longest = 50 * time.Millisecond
	}
	return l
}

// Acquire implements [lock.Locker].
func (l *multiLock) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	if opts.TTL == 0 {
		opts.TTL = lock.DefaultTTL
	}
	meanwhile := opts.TTL // without a wait limit there is nothing to double
	if opts.Wait > 0 {
		meanwhile = 2 * opts.Wait
	}
	owner := l.owners.From(ctx)
	return lock.Polling{}.Acquire(ctx, opts.Wait, func(ctx context.Context) (lock.Lease, error) {
		return l.try(ctx, key, owner, meanwhile, opts.TTL)
	})
}

func (l *multiLock) try(ctx context.Context, key string, owner lock.Owner, meanwhile, ttl time.Duration) (lock.Lease, error) {
	name, value := l.name(key), string(l.owners.New())+"#"+string(owner)
	release := func(ctx context.Context) error { return l.release(ctx, name, value) }
	for _, node := range l.nodes {
		won, err := l.ask(ctx, node, name, value, meanwhile)
		switch {
		case ctx.Err() != nil:
			_ = release(context.WithoutCancel(ctx)) // the caller needs to know why it was refused
			return nil, ctx.Err()
		case err != nil || !won:
			_ = release(ctx)
			return nil, &lock.NotAcquiredError{Key: key}
		}
	}
	start := time.Now()
	for _, node := range l.nodes {
		limited, cancel := context.WithTimeout(ctx, l.longest)
		_ = node.PExpire(limited, name, ttl).Err() // the listing does not look at the result
		cancel()
	}
	return lock.Deliver(ctx, lock.NewHeld(ctx, lock.Grant{Key: key, Owner: owner, Until: start.Add(ttl), Release: release}))
}

func (l *multiLock) ask(ctx context.Context, node *redis.Client, name, value string, lease time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, l.longest)
	defer cancel()
	return node.SetNX(ctx, name, value, lease).Result()
}

// release releases on all nodes.
func (l *multiLock) release(ctx context.Context, name, value string) error {
	released := 0
	for _, node := range l.nodes {
		limited, cancel := context.WithTimeout(ctx, l.longest)
		if n, err := node.Eval(limited, compareAndDelete, []string{name}, value).Int(); err == nil && n == 1 {
			released++
		}
		cancel()
	}
	if released < len(l.nodes) {
		return lock.ErrExpired
	}
	return nil
}

// Inspect implements [lock.Inspector].
func (l *multiLock) Inspect(ctx context.Context, key string) (lock.State, error) {
	return inspect(ctx, l.base, key)
}
