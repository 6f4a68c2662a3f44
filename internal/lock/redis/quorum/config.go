package quorum

import (
	"fmt"
	"time"

	"seckill/internal/lock"
)

// Config configures a [Locker]. The zero value takes every default.
type Config struct {
	// Prefix comes before every key, so that several installations can share nodes.
	Prefix string
	// NodeTimeout bounds a round trip to one node, including the connection set-up. Keep it small compared with the
	// lease: a node that hangs costs an operation this much. Default 50 ms.
	NodeTimeout time.Duration
	// WatchdogTimeout is the length of a lease that is renewed, which is one without a TTL of its own. The watchdog
	// renews it until the release, so it only bounds how long the lock of a dead process stays. Default 30 s.
	WatchdogTimeout time.Duration
	// RenewEvery is how often such a lease is renewed. Default a third of WatchdogTimeout.
	RenewEvery time.Duration
	// RetryEvery is how long one attempt to renew may take, and how soon after its start a failed one is repeated.
	// Default a fifth of RenewEvery, at most 1 s.
	RetryEvery time.Duration
	// DriftFactor is how far the clocks of this process and of the nodes may drift apart, as a fraction of the lease. 2
	// ms are added because Redis rounds. The default,
	// 0.01, is that of the Redis documentation of Redlock.
	DriftFactor float64
	// Poll configures how waiters poll.
	Poll lock.Polling
}

const (
	// rounding is the constant part of the drift: Redis expires to the millisecond.
	rounding = 2 * time.Millisecond
	// minValidity is what must be left of a lease when it is granted.
	minValidity = time.Millisecond
)

// WithDefaults returns c with every zero replaced by its default.
func (c Config) WithDefaults() Config {
	if c.NodeTimeout == 0 {
		c.NodeTimeout = 50 * time.Millisecond
	}
	if c.WatchdogTimeout == 0 {
		c.WatchdogTimeout = 30 * time.Second
	}
	if c.RenewEvery == 0 {
		c.RenewEvery = c.WatchdogTimeout / 3
	}
	if c.RetryEvery == 0 {
		c.RetryEvery = min(c.RenewEvery/5, time.Second)
	}
	if c.DriftFactor == 0 {
		c.DriftFactor = 0.01
	}
	return c
}

// Validate returns [lock.ErrInvalid] for a configuration that cannot work: a lease must outlast its renewals and the
// timeout of a node, and a renewal must leave time for another attempt.
func (c Config) Validate() error {
	switch {
	case c.NodeTimeout <= 0:
		return invalid("NodeTimeout is %v, not positive", c.NodeTimeout)
	case c.WatchdogTimeout < lock.MinTTL || c.WatchdogTimeout > lock.MaxTTL:
		return invalid("WatchdogTimeout is %v; %v to %v", c.WatchdogTimeout, lock.MinTTL, lock.MaxTTL)
	case c.RenewEvery >= c.WatchdogTimeout:
		return invalid("RenewEvery is %v, not shorter than WatchdogTimeout, %v", c.RenewEvery, c.WatchdogTimeout)
	case c.RetryEvery <= 0 || c.RetryEvery >= c.RenewEvery:
		return invalid("RetryEvery is %v; more than 0 and less than RenewEvery, %v", c.RetryEvery, c.RenewEvery)
	case c.NodeTimeout >= c.WatchdogTimeout:
		return invalid("NodeTimeout is %v, not shorter than WatchdogTimeout, %v", c.NodeTimeout, c.WatchdogTimeout)
	case !(c.DriftFactor >= 0 && c.DriftFactor < 1): // NaN too
		return invalid("DriftFactor is %v; 0 to 1", c.DriftFactor)
	}
	return c.checkLease(c.WatchdogTimeout)
}

// drift is how much earlier a lease may end on a node than by this process's clock.
func (c Config) drift(ttl time.Duration) time.Duration {
	return time.Duration(float64(ttl)*c.DriftFactor) + rounding
}

// checkLease refuses a lease that is no longer than its drift.
func (c Config) checkLease(ttl time.Duration) error {
	if drift := c.drift(ttl); ttl-drift < minValidity {
		return invalid("of a lease of %v the drift of %v leaves less than %v", ttl, drift, minValidity)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{lock.ErrInvalid}, args...)...)
}
