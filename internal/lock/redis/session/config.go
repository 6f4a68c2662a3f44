package session

import (
	"fmt"
	"time"

	"seckill/internal/lock"
)

// Config configures a [Session]. The zero value takes every default.
type Config struct {
	// Prefix comes before every key and channel, so that several installations can share one Redis.
	Prefix string
	// WatchdogTimeout is the length of a lease that is renewed, which is one without a TTL of its own. The watchdog
	// renews it until the release, so it only bounds how long the lock of a dead process stays. Default 30 s.
	WatchdogTimeout time.Duration
	// RenewEvery is how often such a lease is renewed. Default a third of WatchdogTimeout.
	RenewEvery time.Duration
	// RetryEvery is how long one attempt to renew may take, and how soon after its start a failed one is repeated. It
	// is also how often a waiter looks at a lock that has no expiry. Default a fifth of RenewEvery, at most 1 s.
	RetryEvery time.Duration
	// CommandTimeout bounds one round trip. An operation whose outcome is unknown after it is repeated once. A command
	// that its caller sends is cut after 250 ms already, and this time is for its repetitions. Default 1 s.
	CommandTimeout time.Duration
	// QueueEntryTTL is how long an entry in a lock's queue lasts unless its waiter refreshes it: the longest time that
	// a dead waiter can hold up the others. A live waiter asks three times as often, which also bounds what a lost
	// message can cost. Default 3 s.
	QueueEntryTTL time.Duration
	// MaxLocalHandovers is how often in a row a holder may hand the lock to the next waiter of its own process while
	// other processes wait. Default 16.
	MaxLocalHandovers int
	// Cluster says that the client reaches a Redis Cluster although it is not a
	// *redis.ClusterClient: a wrapper around one, or the client of a proxy.
	Cluster bool
	// Replicas is how many replicas have to acknowledge a lock before its holder gets it; CommandTimeout bounds how
	// long that may take, beyond the wait for the lock. Otherwise it is released, and the error is
	// [lock.ErrUnavailable]. Default 0: none.
	Replicas int
	// Pipelines is how many batches of commands may be under way at a time. Default 4.
	Pipelines int
}

// WithDefaults returns c with every zero replaced by its default.
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
	if c.QueueEntryTTL == 0 {
		c.QueueEntryTTL = 3 * time.Second
	}
	c.QueueEntryTTL = c.QueueEntryTTL.Truncate(time.Millisecond)
	if c.MaxLocalHandovers == 0 {
		c.MaxLocalHandovers = 16
	}
	if c.Pipelines == 0 {
		c.Pipelines = 4
	}
	return c
}

// Validate returns [lock.ErrInvalid] for a configuration that cannot work: a lease must outlast its renewals, and a
// renewal must leave time for another attempt.
func (c Config) Validate() error {
	switch {
	case c.WatchdogTimeout < lock.MinTTL || c.WatchdogTimeout > lock.MaxTTL:
		return fmt.Errorf("%w: WatchdogTimeout is %v; %v to %v",
			lock.ErrInvalid, c.WatchdogTimeout, lock.MinTTL, lock.MaxTTL)
	case c.RenewEvery >= c.WatchdogTimeout:
		return fmt.Errorf("%w: RenewEvery is %v, not shorter than WatchdogTimeout, %v",
			lock.ErrInvalid, c.RenewEvery, c.WatchdogTimeout)
	case c.RetryEvery >= c.RenewEvery:
		return fmt.Errorf("%w: RetryEvery is %v, not shorter than RenewEvery, %v",
			lock.ErrInvalid, c.RetryEvery, c.RenewEvery)
	case c.RetryEvery <= 0:
		return fmt.Errorf("%w: RetryEvery is %v, not positive", lock.ErrInvalid, c.RetryEvery)
	case c.CommandTimeout <= 0:
		return fmt.Errorf("%w: CommandTimeout is %v, not positive", lock.ErrInvalid, c.CommandTimeout)
	case c.QueueEntryTTL < 3*time.Millisecond:
		return fmt.Errorf("%w: QueueEntryTTL is %v, less than 3ms", lock.ErrInvalid, c.QueueEntryTTL)
	case c.MaxLocalHandovers < 0:
		return fmt.Errorf("%w: MaxLocalHandovers is %d, not positive", lock.ErrInvalid, c.MaxLocalHandovers)
	case c.Replicas < 0:
		return fmt.Errorf("%w: Replicas is %d, less than 0", lock.ErrInvalid, c.Replicas)
	case c.Pipelines < 0:
		return fmt.Errorf("%w: Pipelines is %d, not positive", lock.ErrInvalid, c.Pipelines)
	}
	return nil
}

// pollInterval is how often a waiter that is first in its queue asks without having been notified.
func (c Config) pollInterval() time.Duration { return c.QueueEntryTTL / 3 }

// handoverTTL is the lease of a waiter that a release in another process made the holder, until its watchdog renews it.
func (c Config) handoverTTL() time.Duration {
	return time.Duration(c.QueueEntryTTL.Milliseconds()/2) * time.Millisecond
}
