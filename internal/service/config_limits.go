package service

import (
	"fmt"
	"strconv"
	"time"

	"seckill/internal/admission"
)

// The default limits per user: far more than a person or an honest program needs.
const (
	defaultUserLookups = 50
	defaultUserKeys    = 1000
	defaultUserCancels = 100
)

func limitSettings() []setting {
	return []setting{
		{name: "user-rate", arg: "number", usage: "orders that each user may ask this process for per second, and twice as many at once (default: any number)",
			set: func(c *Config, v string) (err error) { c.UserRate, err = parseRate(v); return err }},
		{name: "user-lookups", arg: "number", usage: fmt.Sprintf("how often per second each user may ask this process for orders that were placed, and twice as often at once (default %d)", defaultUserLookups),
			set: func(c *Config, v string) (err error) { c.UserLookups, err = parseRate(v); return err }},
		{name: "user-keys", arg: "number", usage: fmt.Sprintf("how many new idempotency keys of each user this process stores per hour, and as many at once, 1 to %d (default %d)", maxUserKeys, defaultUserKeys),
			set: func(c *Config, v string) (err error) {
				c.UserKeys, err = parseNumber[int64](v, 1, maxUserKeys)
				return err
			}},
		{name: "user-cancels", arg: "number", usage: fmt.Sprintf("how many orders each user may cancel at this process per hour, and as many at once, 1 to %d (default %d)", maxUserKeys, defaultUserCancels),
			set: func(c *Config, v string) (err error) {
				c.UserCancels, err = parseNumber[int64](v, 1, maxUserKeys)
				return err
			}},
	}
}

// maxUserRate is more than a user can send, and can still be counted exactly.
const maxUserRate = 1e6

func parseRate(v string) (float64, error) {
	rate, err := strconv.ParseFloat(v, 64)
	if err != nil || !(rate >= 0.001 && rate <= maxUserRate) {
		return 0, fmt.Errorf("want a number from 0.001 to %.0f", maxUserRate)
	}
	return rate, nil
}

// maxUserKeys is more than a database should store for one user, of keys and of cancelled orders.
const maxUserKeys = 1_000_000

// The number of users that a limiter tracks, at 40 bytes each: for orders, and for everything else.
const (
	limitedUsers = 1_000_000
	quotaUsers   = 200_000
)

// limits are the limits per user.
type limits struct {
	orders                 func(userID int64) (wait time.Duration, ok bool) // nil: no limit
	lookups, keys, cancels *admission.Limiter
}

func newLimits(cfg Config) (l limits, err error) {
	if cfg.UserRate > 0 {
		limiter, err := admission.NewLimiter(cfg.UserRate, max(1, int(2*cfg.UserRate)), limitedUsers)
		if err != nil {
			return limits{}, fmt.Errorf("SECKILL_USER_RATE: %w", err)
		}
		l.orders = limiter.Allow
	}
	if l.lookups, err = admission.NewLimiter(cfg.UserLookups, max(1, int(2*cfg.UserLookups)), quotaUsers); err != nil {
		return limits{}, fmt.Errorf("SECKILL_USER_LOOKUPS: %w", err)
	}
	if l.keys, err = perHour(cfg.UserKeys); err != nil {
		return limits{}, fmt.Errorf("SECKILL_USER_KEYS: %w", err)
	}
	if l.cancels, err = perHour(cfg.UserCancels); err != nil {
		return limits{}, fmt.Errorf("SECKILL_USER_CANCELS: %w", err)
	}
	return l, nil
}

// perHour allows each user n requests per hour, and as many at once.
func perHour(n int64) (*admission.Limiter, error) {
	return admission.NewLimiter(float64(n)/time.Hour.Seconds(), int(n), quotaUsers)
}
