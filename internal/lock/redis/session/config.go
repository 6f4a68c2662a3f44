package session

import (
	"fmt"
	"time"

	"seckill/internal/lock"
)

// Config says how a [Locker] works. The zero value takes every default.
type Config struct {
	// Prefix comes before every key and channel, so that several installations
	// can share one Redis.
	Prefix string
	// WatchdogTimeout is the lease of an acquisition that asks for none. It is
	// renewed until the release, so it bounds only how long the lock of a dead
	// process stays. Default 30 s.
	WatchdogTimeout time.Duration
	// RenewEvery is how often such a lease is renewed. Default a third of
	// WatchdogTimeout.
	RenewEvery time.Duration
	// RetryEvery is how long one attempt to renew may take, and how soon after
	// its start a failed one is repeated. It is also how often a waiter looks at
	// a lock that has no expiry. Default a fifth of RenewEvery, at most 1 s.
	RetryEvery time.Duration
	// CommandTimeout bounds one round trip; an operation whose outcome is unknown
	// after it is repeated once. Default 1 s.
	CommandTimeout time.Duration
	// PlaceTimeout is how long a place in a lock's queue lasts when nobody looks
	// after it: the longest that a waiter that died can keep others waiting. A
	// waiter that lives asks again three times as often, which also bounds what a
	// message that is missed can cost. Default 3 s.
	PlaceTimeout time.Duration
	// Passes is how often in a row a lock is handed on from a holder to the next
	// waiter of the same process while other processes wait. Default 16.
	Passes int
	// Cluster says that the client reaches a Redis Cluster although it is no
	// *redis.ClusterClient: one that wraps it, or a proxy's.
	Cluster bool
	// Pipelines is how many batches of commands may be under way at a time.
	// Default 4.
	Pipelines int
}

// WithDefaults returns c with every zero replaced.
func (c Config) WithDefaults() Config {
	if c.WatchdogTimeout == 0 {
		c.WatchdogTimeout = 30 * time.Second
	}
	if c.RenewEvery == 0 {
		c.RenewEvery = c.WatchdogTimeout / 3
	}
	if c.RetryEvery == 0 {
		c.RetryEvery = min(c.RenewEvery/5, time.Second)
	}
	if c.CommandTimeout == 0 {
		c.CommandTimeout = time.Second
	}
	if c.PlaceTimeout == 0 {
		c.PlaceTimeout = 3 * time.Second
	}
	c.PlaceTimeout = c.PlaceTimeout.Truncate(time.Millisecond)
	if c.Passes == 0 {
		c.Passes = 16
	}
	if c.Pipelines == 0 {
		c.Pipelines = 4
	}
	return c
}

// Validate says with [lock.ErrInvalid] what cannot work: a lease must outlast its
// renewals, and a renewal must leave time to be tried again.
func (c Config) Validate() error {
	switch {
	case c.WatchdogTimeout < lock.MinTTL || c.WatchdogTimeout > lock.MaxTTL:
		return fmt.Errorf("%w: WatchdogTimeout is %v; %v to %v", lock.ErrInvalid, c.WatchdogTimeout, lock.MinTTL, lock.MaxTTL)
	case c.RenewEvery >= c.WatchdogTimeout:
		return fmt.Errorf("%w: RenewEvery is %v, not shorter than WatchdogTimeout, %v", lock.ErrInvalid, c.RenewEvery, c.WatchdogTimeout)
	case c.RetryEvery >= c.RenewEvery:
		return fmt.Errorf("%w: RetryEvery is %v, not shorter than RenewEvery, %v", lock.ErrInvalid, c.RetryEvery, c.RenewEvery)
	case c.RetryEvery <= 0:
		return fmt.Errorf("%w: RetryEvery is %v, not positive", lock.ErrInvalid, c.RetryEvery)
	case c.CommandTimeout <= 0:
		return fmt.Errorf("%w: CommandTimeout is %v, not positive", lock.ErrInvalid, c.CommandTimeout)
	case c.PlaceTimeout < 3*time.Millisecond:
		return fmt.Errorf("%w: PlaceTimeout is %v, less than 3ms", lock.ErrInvalid, c.PlaceTimeout)
	case c.Passes < 0:
		return fmt.Errorf("%w: Passes is %d, not positive", lock.ErrInvalid, c.Passes)
	case c.Pipelines < 0:
		return fmt.Errorf("%w: Pipelines is %d, not positive", lock.ErrInvalid, c.Pipelines)
	}
	return nil
}

// askAgain is how often a waiter whose turn it is asks without having been told.
func (c Config) askAgain() time.Duration { return c.PlaceTimeout / 3 }
