package native

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/plain"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/lock/watchdog"
)

// lease is what this process knows of a lease that it holds.
type lease struct {
	plain.Attempt
	watched watchdog.Entry[*lease]

	releaseUnknown bool // a release had no reply. lock.Held makes no two releases at the same time
}

// hold makes a lease of a granted attempt and registers it with the watchdog.
func (l *Locker) hold(ctx context.Context, a plain.Attempt, start time.Time) *lock.Held {
	h := &lease{Attempt: a}
	grant := lock.Grant{
		Key: a.Key, Owner: a.Owner, Until: watchdog.Until(start, a.TTL),
		Release: func(ctx context.Context) error { return l.release(ctx, h) },
		Extend:  func(ctx context.Context, ttl time.Duration) (time.Time, error) { return l.extend(ctx, h, ttl) },
		Stop:    func() { l.watchdog.Unwatch(&h.watched) },
	}
	if !a.Renew {
		grant.TTL = a.TTL
	}
	h.watched = watchdog.Entry[*lease]{
		Held: lock.NewHeld(ctx, grant), Start: start, TTL: a.TTL, AutoRenew: a.Renew, Value: h,
	}
	l.watchdog.Watch(&h.watched)
	return h.watched.Held
}

// prolong makes the command that sets the same value again, with a new end, if the key still has it.
func (h *lease) prolong(ttl time.Duration) []any {
	return []any{"set", h.Name, h.Value, "ifeq", h.Value, "get", "px", ttl.Milliseconds()}
}

// prolonged returns the outcome of that command, whose reply is what it found.
func (h *lease) prolonged(ctx context.Context, found *redis.Cmd) error {
	value, err := found.Text()
	if err == nil && value == h.Value {
		return nil
	}
	return over(ctx, err)
}

// over returns why a lease is over, by the error of a command that read the key and found another value or none.
func over(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, redis.Nil):
		return lock.ErrExpired
	case err != nil:
		return redisio.Error(ctx, err)
	}
	return lock.ErrLost
}

// renew renews a batch of leases in one pipeline. The watchdog calls it.
func (l *Locker) renew(ctx context.Context, batch []*watchdog.Entry[*lease]) []watchdog.Outcome {
	pipeline := l.client.Pipeline()
	found := make([]*redis.Cmd, len(batch))
	for i, e := range batch {
		found[i] = pipeline.Do(ctx, e.Value.prolong(e.Value.TTL)...)
	}
	_, _ = pipeline.Exec(ctx) // each command has its own error
	outcomes := make([]watchdog.Outcome, len(batch))
	for i, e := range batch {
		outcomes[i].Err = e.Value.prolonged(context.Background(), found[i])
	}
	return outcomes
}

// extend makes the lease end ttl from now; ttl 0 stands for its own length.
func (l *Locker) extend(ctx context.Context, h *lease, ttl time.Duration) (time.Time, error) {
	if ttl == 0 {
		ttl = h.TTL
	}
	start := time.Now()
	err := h.prolonged(ctx, l.client.Do(ctx, h.prolong(ttl)...))
	until := watchdog.Until(start, ttl)
	switch {
	case err == nil:
		l.watchdog.Extended(&h.watched, until)
		return until, nil
	case !errors.Is(err, lock.ErrExpired) && !errors.Is(err, lock.ErrLost):
		l.watchdog.Shorten(&h.watched, until) // the server may have carried it out
	}
	return time.Time{}, fmt.Errorf("%w: %q", err, h.Key)
}
