package idworker

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// ErrInvalid means that a [Config] is not valid. Compare with errors.Is.
var ErrInvalid = errors.New("idworker: invalid configuration")

// Config configures how a [Sonyflake] leases its machine ids. The zero value is ready to
// use. Processes that share a KeyPrefix should have the same Config, except for Machines
// and Logger.
type Config struct {
	// KeyPrefix is the prefix of every key in Redis.
	KeyPrefix string
	// Machines is the number of machine ids to hold, each for 25,600 ids a second.
	// Default 2.
	Machines int
	// FirstMachine and LastMachine bound the machine ids to lease. Deployments that write
	// to one table but do not share a Redis need separate ranges. Default: 0 to 65,535; a
	// LastMachine of 0 means 65,535.
	FirstMachine, LastMachine uint16

	// TTL is the time to live of a lease. A holder stops minting after nine tenths of it
	// without a renewal; a killed holder blocks its machine id for all of it. Default 10 s.
	TTL time.Duration
	// Renewal is the time between two renewals of a lease. Default a third of TTL.
	Renewal time.Duration
	// Retry is the pause after Redis did not answer or had no free machine id. Default a
	// twentieth of TTL.
	Retry time.Duration
	// MarkRetention is how long the mark of a machine id is kept after it has passed. It
	// is the largest clock error that is detected. Default 24 h.
	MarkRetention time.Duration
	// GracePeriod is how long no machine id is leased after Redis was first found empty,
	// as at the very first start and after a loss of data. With TTL or more, all previous
	// holders have stopped by then. Default 0: no wait. See the package documentation for
	// the risk.
	GracePeriod time.Duration

	// Logger logs leased and lost machine ids. Default: no log.
	Logger *slog.Logger

	// start returns tick 0. Only tests replace epoch: sonyflake reads the clock itself, so
	// moving its start is the way to move its clock.
	start func() time.Time
}

// Bounds of a Config.
const (
	MaxMachines = 64
	MinTTL      = 100 * time.Millisecond
	MaxTTL      = time.Hour
)

// usable is the part of a lease in which its holder may mint: nine tenths. The rest
// allows for clocks that run at different rates.
func usable(ttl time.Duration) time.Duration { return ttl / 10 * 9 }

// epoch is tick 0 of a Sonyflake and second 0 of a RedisCounter. Moving it would repeat ids.
func epoch() time.Time { return time.Date(2022, time.January, 1, 0, 0, 0, 0, time.UTC) }

func (c Config) withDefaults() Config {
	c.Machines = cmp.Or(c.Machines, 2)
	c.LastMachine = cmp.Or(c.LastMachine, 1<<16-1)
	c.TTL = cmp.Or(c.TTL, 10*time.Second)
	c.Renewal = cmp.Or(c.Renewal, c.TTL/3)
	c.Retry = cmp.Or(c.Retry, c.TTL/20)
	c.MarkRetention = cmp.Or(c.MarkRetention, 24*time.Hour)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.start == nil {
		c.start = epoch
	}
	return c
}

// Validate returns an [ErrInvalid] for the first invalid field, after applying the defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.FirstMachine > c.LastMachine:
		return invalid("FirstMachine %d is above LastMachine %d", c.FirstMachine, c.LastMachine)
	case c.Machines < 1 || c.Machines > min(MaxMachines, c.available()):
		return invalid("Machines is %d; 1 to %d", c.Machines, min(MaxMachines, c.available()))
	case c.TTL < MinTTL || c.TTL > MaxTTL:
		return invalid("TTL is %v; %v to %v", c.TTL, MinTTL, MaxTTL)
	case c.Renewal >= usable(c.TTL):
		return invalid("Renewal %v must be below nine tenths of TTL, %v", c.Renewal, usable(c.TTL))
	case c.Retry >= c.Renewal:
		return invalid("Retry %v must be below Renewal %v", c.Retry, c.Renewal)
	case c.Retry < time.Millisecond:
		return invalid("Retry is %v; at least a millisecond", c.Retry)
	case c.MarkRetention < c.TTL:
		return invalid("MarkRetention %v must not be below TTL %v", c.MarkRetention, c.TTL)
	case c.GracePeriod < 0:
		return invalid("GracePeriod is negative: %v", c.GracePeriod)
	}
	return nil
}

// available is the number of machine ids from FirstMachine to LastMachine.
func (c Config) available() int { return int(c.LastMachine) - int(c.FirstMachine) + 1 }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
