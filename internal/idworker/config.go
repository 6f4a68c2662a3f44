package idworker

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// ErrInvalid says that the configuration is not acceptable. Compare with errors.Is.
var ErrInvalid = errors.New("idworker: invalid configuration")

// Config says how [Sonyflake] leases its machine ids. The zero value is ready to
// use. Processes that share a KeyPrefix should agree on all of it but Machines and
// Logger.
type Config struct {
	// KeyPrefix goes before every key in Redis.
	KeyPrefix string
	// Machines is how many machine ids to hold: 25,600 ids a second each.
	// Default 2.
	Machines int
	// FirstMachine and LastMachine bound the machine ids to lease. Deployments
	// that do not share a Redis and write to one table need ranges that are
	// apart. Default: all, 0 to 65,535; a LastMachine of 0 is 65,535.
	FirstMachine, LastMachine uint16

	// TTL is how long a machine id is leased. A holder stops minting after nine
	// tenths of it without a renewal; a killed one blocks its machine id for all
	// of it. Default 10 s.
	TTL time.Duration
	// Renewal is how often a lease is renewed. Default a third of TTL.
	Renewal time.Duration
	// Retry is how long to wait after Redis did not answer, or had no machine id
	// to give. Default a twentieth of TTL.
	Retry time.Duration
	// Memory is how long it is remembered of a machine id up to when it was in
	// use: the largest error of a clock that is noticed. Default 24 h.
	Memory time.Duration
	// Settle is how long no machine id is leased after Redis was first seen
	// without any, as at the very first start and after it lost its data. At
	// TTL or more, those who held one before have stopped by then. Default 0: no
	// wait, see the package documentation for the risk.
	Settle time.Duration

	// Logger hears of machine ids leased and lost. Default: nobody does.
	Logger *slog.Logger

	// start is tick 0. Only tests have another one than epoch: sonyflake reads
	// the clock by itself, so moving its start is how to move its clock.
	start func() time.Time
}

// Bounds of a Config.
const (
	MaxMachines = 64
	MinTTL      = 100 * time.Millisecond
	MaxTTL      = time.Hour
)

// usable is the part of a lease in which its holder mints: nine tenths. The rest
// covers clocks that run at different rates.
func usable(ttl time.Duration) time.Duration { return ttl / 10 * 9 }

// epoch is tick 0 of a Sonyflake and second 0 of a RedisCounter. Moving it
// repeats ids.
func epoch() time.Time { return time.Date(2022, time.January, 1, 0, 0, 0, 0, time.UTC) }

func (c Config) withDefaults() Config {
	orElse := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	if c.Machines == 0 {
		c.Machines = 2
	}
	if c.LastMachine == 0 {
		c.LastMachine = 1<<16 - 1
	}
	orElse(&c.TTL, 10*time.Second)
	orElse(&c.Renewal, c.TTL/3)
	orElse(&c.Retry, c.TTL/20)
	orElse(&c.Memory, 24*time.Hour)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.start == nil {
		c.start = epoch
	}
	return c
}

// Validate says with [ErrInvalid] what is wrong, the defaults applied.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.FirstMachine > c.LastMachine:
		return invalid("FirstMachine %d is above LastMachine %d", c.FirstMachine, c.LastMachine)
	case c.Machines < 1 || c.Machines > min(MaxMachines, c.pool()):
		return invalid("Machines is %d; 1 to %d", c.Machines, min(MaxMachines, c.pool()))
	case c.TTL < MinTTL || c.TTL > MaxTTL:
		return invalid("TTL is %v; %v to %v", c.TTL, MinTTL, MaxTTL)
	case c.Renewal >= usable(c.TTL):
		return invalid("Renewal %v must be below nine tenths of TTL, %v", c.Renewal, usable(c.TTL))
	case c.Retry >= c.Renewal:
		return invalid("Retry %v must be below Renewal %v", c.Retry, c.Renewal)
	case c.Retry < time.Millisecond:
		return invalid("Retry is %v; at least a millisecond", c.Retry)
	case c.Memory < c.TTL:
		return invalid("Memory %v must not be below TTL %v", c.Memory, c.TTL)
	case c.Settle < 0:
		return invalid("Settle is negative: %v", c.Settle)
	}
	return nil
}

// pool is how many machine ids there are to lease.
func (c Config) pool() int { return int(c.LastMachine) - int(c.FirstMachine) + 1 }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
