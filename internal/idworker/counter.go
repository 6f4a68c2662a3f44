package idworker

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/order"
)

// ErrExhausted means that the count of a day, or the seconds since the epoch, no longer
// fit into their bits. Compare with errors.Is.
var ErrExhausted = errors.New("idworker: id space used up")

const (
	countBits   = 32
	secondsBits = 31
	// counterTTL is how long the counter of a day is kept: that day, and another one for
	// clocks that are behind.
	counterTTL = 48 * time.Hour
)

//go:embed counter.lua
var counterLua string

// RedisCounter mints ids from a second and the count of its day, which Redis keeps. It is
// safe for use by several goroutines.
type RedisCounter struct {
	client redis.Scripter
	prefix string
	script *redis.Script
	now    func() time.Time
}

var _ order.IDs = (*RedisCounter)(nil)

// CounterConfig names the keys of a [RedisCounter].
type CounterConfig struct {
	// KeyPrefix is the prefix of every key in Redis.
	KeyPrefix string
	// Name is what the ids are for. Each name has its own counters. Default "order".
	Name string
	// Now is the clock. Default [time.Now].
	Now func() time.Time
}

// NewRedisCounter returns a counter. It does not connect to Redis yet.
func NewRedisCounter(client redis.Scripter, cfg CounterConfig) *RedisCounter {
	if cfg.Name == "" {
		cfg.Name = "order"
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &RedisCounter{
		client: client,
		prefix: cfg.KeyPrefix + "icr:" + cfg.Name + ":",
		script: redis.NewScript(counterLua),
		now:    cfg.Now,
	}
}

// NextID increments the counter and returns an id. It returns [order.ErrUnavailable] if
// Redis does not answer, and [ErrExhausted] after 2^32 ids in a day or after 68 years.
func (c *RedisCounter) NextID(ctx context.Context) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	now := c.now().UTC()
	count, err := c.script.Run(ctx, c.client, []string{c.key(now)}, counterTTL.Milliseconds()).Int64()
	switch {
	case err == nil:
		return compose(now.Unix()-epoch().Unix(), count)
	case ctx.Err() != nil:
		return 0, ctx.Err()
	}
	return 0, fmt.Errorf("%w: idworker: count: %w", order.ErrUnavailable, err)
}

// key is the key of the counter of t's day, in UTC.
func (c *RedisCounter) key(t time.Time) string { return c.prefix + t.Format("2006:01:02") }

// compose returns the id with a second and a count.
func compose(seconds, count int64) (int64, error) {
	switch {
	case seconds < 0 || seconds >= 1<<secondsBits:
		return 0, fmt.Errorf("%w: %d seconds since %v", ErrExhausted, seconds, epoch())
	case count < 1 || count >= 1<<countBits:
		return 0, fmt.Errorf("%w: count %d of the day", ErrExhausted, count)
	}
	return seconds<<countBits | count, nil
}
