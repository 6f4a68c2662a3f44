package row

import (
	"fmt"
	"time"

	"seckill/internal/lock"
)

// Config says how a [Locker] works. The zero value is the bare lock, without an end.
type Config struct {
	// Expiry gives rows an end.
	Expiry bool
	// Poll is how waiters ask.
	Poll lock.Polling
	// WatchdogTimeout is the lease of an acquisition that asks for none. It is
	// renewed until the release. Default 30 s. This and what follows is of use
	// with Expiry only.
	WatchdogTimeout time.Duration
	// RenewEvery is how often such a lease is renewed. Default a third of
	// WatchdogTimeout.
	RenewEvery time.Duration
	// RetryEvery is how long one attempt to renew may take, and how soon after
	// its start a failed one is repeated. Default a fifth of RenewEvery, at most
	// 1 s.
	RetryEvery time.Duration
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
	case c.RetryEvery <= 0 || c.RetryEvery >= c.RenewEvery:
		return fmt.Errorf("%w: RetryEvery is %v, not between 0 and RenewEvery, %v", lock.ErrInvalid, c.RetryEvery, c.RenewEvery)
	}
	return nil
}
