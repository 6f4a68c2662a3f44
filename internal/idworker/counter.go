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

// ErrExhausted says that the count of a day or the seconds since the epoch have
// outgrown their bits. Compare with errors.Is.
var ErrExhausted = errors.New("idworker: id space used up")

const (
	countBits   = 32
	secondsBits = 31
	// counterLife is how long the counter of a day is kept: the day itself, and
	// another for clocks that are behind.
	counterLife = 48 * time.Hour
)

//go:embed counter.lua
var counterLua string

// RedisCounter mints ids of the usual scheme: a second, and the count of its day in
// Redis. It is safe for use by several goroutines.
type RedisCounter struct {
	client redis.Scripter
	prefix string
	script *redis.Script
}

var _ order.IDs = (*RedisCounter)(nil)

// CounterConfig says where a [RedisCounter] counts.
type CounterConfig struct {
	// KeyPrefix goes before every key in Redis.
	KeyPrefix string
	// Name is what is counted; each name has ids of its own. Default "order".
	Name string
}

// NewRedisCounter returns a counter. It does not ask Redis yet.
func NewRedisCounter(client redis.Scripter, cfg CounterConfig) *RedisCounter {
	if cfg.Name == "" {
		cfg.Name = "order"
	}
	return &RedisCounter{
		client: client,
		prefix: cfg.KeyPrefix + "icr:" + cfg.Name + ":",
		script: redis.NewScript(counterLua),
	}
}

// NextID counts one up. It gives [order.ErrUnavailable] where Redis does not answer
// and [ErrExhausted] after 2^32 ids in a day or 68 years.
func (c *RedisCounter) NextID(ctx context.Context) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	now := time.Now().UTC()
	count, err := c.script.Run(ctx, c.client, []string{c.key(now)}, counterLife.Milliseconds()).Int64()
	switch {
	case err == nil:
		return compose(now.Unix()-epoch().Unix(), count)
	case ctx.Err() != nil:
		return 0, ctx.Err()
	}
	return 0, fmt.Errorf("%w: idworker: count: %w", order.ErrUnavailable, err)
}

// key names the counter of the UTC day that t lies in.
func (c *RedisCounter) key(t time.Time) string { return c.prefix + t.Format("2006:01:02") }

// compose lays out an id.
func compose(seconds, count int64) (int64, error) {
	switch {
	case seconds < 0 || seconds >= 1<<secondsBits:
		return 0, fmt.Errorf("%w: %d seconds since %v", ErrExhausted, seconds, epoch())
	case count < 1 || count >= 1<<countBits:
		return 0, fmt.Errorf("%w: count %d of the day", ErrExhausted, count)
	}
	return seconds<<countBits | count, nil
}
