package flawed

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
)

// redlock is the algorithm as “The evolution of Redis locks” tells it: the client notes the time, asks the nodes one
// after the other with the same value, each with a time limit of its own, and has the lock if a majority granted it in
// less than the lease. If it fails it releases on all nodes.
type redlock struct {
	unchecked bool // it does not compare the time with the lease
	patient   bool // a node has no time limit
	forgetful bool // a release reaches only the nodes that are known to have granted it

	nodes   []*redis.Client
	base    lock.Locker
	name    func(key string) string
	timeout time.Duration
	lease   time.Duration
	owners  *lock.Owners
}

func newRedlock(c Config, l redlock) *redlock {
	l.nodes, l.base, l.name, l.timeout, l.lease = c.Nodes, c.Base, keyOf(c.Prefix, "red"), c.NodeTimeout, c.Watchdog
	l.owners = lock.NewOwners()
	if l.timeout == 0 {
		l.timeout = 50 * time.Millisecond
	}
	if l.lease == 0 {
		l.lease = 30 * time.Second
	}
	return &l
}

// Acquire implements [lock.Locker].
func (l *redlock) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	if opts.TTL == 0 {
		opts.TTL = l.lease
	}
	owner := l.owners.From(ctx)
	return lock.Polling{}.Acquire(ctx, opts.Wait, func(ctx context.Context) (lock.Lease, error) {
		return l.try(ctx, key, owner, opts.TTL)
	})
}

func (l *redlock) try(ctx context.Context, key string, owner lock.Owner, ttl time.Duration) (lock.Lease, error) {
	name, value := l.name(key), string(l.owners.New())+"#"+string(owner)
	start := time.Now()
	granted := make([]bool, len(l.nodes))
	votes, answers := 0, 0
	for i, node := range l.nodes {
		won, err := l.ask(ctx, node, name, value, ttl)
		granted[i] = won
		if won {
			votes++
		}
		if err == nil {
			answers++
		}
	}
	release := func(ctx context.Context) error { return l.release(ctx, granted, name, value) }
	took, majority := time.Since(start), len(l.nodes)/2+1
	switch late := took >= ttl && !l.unchecked; {
	case votes >= majority && !late:
		return lock.Deliver(ctx, lock.NewHeld(ctx, lock.Grant{Key: key, Owner: owner, Until: start.Add(ttl), Release: release}))
	case ctx.Err() != nil:
		_ = release(context.WithoutCancel(ctx)) // the caller needs to know why it was refused
		return nil, ctx.Err()
	case late || answers < majority:
		_ = release(ctx)
		return nil, fmt.Errorf("%w: %d of %d nodes answered, in %v", lock.ErrUnavailable, answers, len(l.nodes), took)
	}
	_ = release(ctx)
	return nil, &lock.NotAcquiredError{Key: key}
}

// ask asks one node for the lock.
func (l *redlock) ask(ctx context.Context, node *redis.Client, name, value string, ttl time.Duration) (bool, error) {
	if !l.patient {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.timeout)
		defer cancel()
	}
	return node.SetNX(ctx, name, value, ttl).Result()
}

// release releases on all nodes, or on those that are known to have granted the lock. A node that does not answer does
// not stop the others.
func (l *redlock) release(ctx context.Context, granted []bool, name, value string) error {
	released := 0
	for i, node := range l.nodes {
		if l.forgetful && !granted[i] {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, l.timeout)
		if n, err := node.Eval(limited, compareAndDelete, []string{name}, value).Int(); err == nil && n == 1 {
			released++
		}
		cancel()
	}
	if released < len(l.nodes)/2+1 {
		return lock.ErrExpired
	}
	return nil
}

// Inspect implements [lock.Inspector].
func (l *redlock) Inspect(ctx context.Context, key string) (lock.State, error) {
	return inspect(ctx, l.base, key)
}
