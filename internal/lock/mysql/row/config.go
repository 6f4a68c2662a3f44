package row

import (
	"fmt"
	"time"

	"seckill/internal/lock"
)

// Config configures a [Locker]. The zero value is the lock without expiry.
type Config struct {
	// Expiry makes rows expire.
	Expiry bool
	// Poll configures how waiters poll.
	Poll lock.Polling
	// WatchdogTimeout is the lease of an acquisition without a TTL. It is renewed until the release. Default 30 s. This
	// field and those below need Expiry.
	WatchdogTimeout time.Duration
	// RenewEvery is how often such a lease is renewed. Default a third of WatchdogTimeout.
	RenewEvery time.Duration
	// RetryEvery is how long one attempt to renew may take, and how long after its start a failed one is repeated.
	// Default a fifth of RenewEvery, at most 1 s.
	RetryEvery time.Duration
}

// WithDefaults returns c with every zero field replaced by its default.
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
	return c
}

// Validate returns [lock.ErrInvalid] for a configuration that cannot work: a lease must outlast its renewal interval,
// and a failed renewal must leave time for a retry.
func (c Config) Validate() error {
	switch {
	case c.WatchdogTimeout < lock.MinTTL || c.WatchdogTimeout > lock.MaxTTL:
		return fmt.Errorf("%w: WatchdogTimeout is %v; %v to %v", lock.ErrInvalid, c.WatchdogTimeout, lock.MinTTL, lock.MaxTTL)
	case c.RenewEvery >= c.WatchdogTimeout:
		return fmt.Errorf("%w: RenewEvery is %v, not shorter than WatchdogTimeout, %v", lock.ErrInvalid, c.RenewEvery,
			c.WatchdogTimeout)
	case c.RetryEvery <= 0 || c.RetryEvery >= c.RenewEvery:
		return fmt.Errorf("%w: RetryEvery is %v, not between 0 and RenewEvery, %v", lock.ErrInvalid, c.RetryEvery,
			c.RenewEvery)
	}
	return nil
}
