package fulfil

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/order"
)

// Orders is what [Fulfiller.Await] asks of the database; [order.Store] has it.
type Orders interface {
	// Order returns an order, or [order.ErrNotFound].
	Order(ctx context.Context, id int64) (order.Order, error)
}

// Config says how a [Fulfiller] works. Client, Shelf, Orders and Log are needed; every
// other zero value takes the default named beside it.
type Config struct {
	// Client is best one that does not repeat commands by itself (MaxRetries: -1): what
	// a lost reply had delivered is then asked for at once. With repetitions it waits
	// for ClaimIdle. Its commands are to end with their context (ContextTimeoutEnabled):
	// else a node that hangs holds up the others for as long as its sockets wait.
	Client redis.UniversalClient
	Shelf  order.Shelf
	Orders Orders
	Log    *slog.Logger

	// Prefix is the installation's prefix of keys, as the gate has it.
	Prefix string
	// Name tells this process from the others. One that survives a restart lets the
	// process go on at once with what it held. Default: host, process id and a random
	// part.
	Name string
	// Workers is how many transactions may run at once. Default 1.
	Workers int
	// BatchSize is how many orders a transaction takes. Default 500.
	BatchSize int
	// Linger is how long a worker lets entries gather after a batch that was not full,
	// so that a stream that flows is written in fewer transactions. An entry that
	// finds the worker idle never waits for it. Default 5 ms; negative: none. At 10,000
	// orders/s it halved the database's work.
	Linger time.Duration
	// Block is how long a read waits for entries, and so how long it takes to notice
	// a new voucher, or the stop. Default 250 ms.
	Block time.Duration
	// ClaimIdle is how long an entry must have been held without result before another
	// worker takes it over. Default 30 s.
	ClaimIdle time.Duration
	// ClaimEvery is how often that is looked for. Default a third of ClaimIdle.
	ClaimEvery time.Duration
	// MaxDeliveries is how often an entry may be delivered in the company of others.
	// After that it is tried alone, as it may be what ends its consumers. Default 3.
	MaxDeliveries int64
	// MaxAttempts is how often an entry is tried alone before it is rejected.
	// Default 5.
	MaxAttempts int64
	// FirstPause and MaxPause are how long to wait after the first failure and after
	// many. Default 50 ms and 2 s.
	FirstPause, MaxPause time.Duration
	// DiscoverEvery is how often the database is asked which vouchers there are, and
	// the streams how long they are. Default 1 s.
	DiscoverEvery time.Duration
	// KeepFor is how long after its sale a voucher's stream is read although it is
	// empty. Default 1 h.
	KeepFor time.Duration
	// FinishTimeout bounds how long the stop waits for batches that were begun.
	// Default 10 s.
	FinishTimeout time.Duration

	Observer Observer
	// Faults are brought about for every batch at critical-section (it was read, and
	// nothing was written), at after-commit (written, not acknowledged) and at
	// before-release (rejected in the database, reservation not given back). Default
	// none.
	Faults *lock.Faults
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown" // the rest makes it unique
		}
		c.Name = fmt.Sprintf("%s-%d-%s", host, os.Getpid(), randomName())
	}
	c.Workers = cmp.Or(c.Workers, 1)
	c.BatchSize = cmp.Or(c.BatchSize, 500)
	c.Linger = cmp.Or(c.Linger, 5*time.Millisecond)
	c.Block = cmp.Or(c.Block, 250*time.Millisecond)
	c.ClaimIdle = cmp.Or(c.ClaimIdle, 30*time.Second)
	c.ClaimEvery = cmp.Or(c.ClaimEvery, c.ClaimIdle/3)
	c.MaxDeliveries = cmp.Or(c.MaxDeliveries, 3)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 5)
	c.FirstPause = cmp.Or(c.FirstPause, 50*time.Millisecond)
	c.MaxPause = cmp.Or(c.MaxPause, 2*time.Second)
	c.DiscoverEvery = cmp.Or(c.DiscoverEvery, time.Second)
	c.KeepFor = cmp.Or(c.KeepFor, time.Hour)
	c.FinishTimeout = cmp.Or(c.FinishTimeout, 10*time.Second)
	return c
}

// Validate says what is missing or cannot work.
func (c Config) Validate() error {
	if c.Client == nil || c.Shelf == nil || c.Orders == nil || c.Log == nil {
		return errors.New("fulfil: incomplete configuration")
	}
	c = c.withDefaults()
	switch {
	case c.Workers < 1 || c.BatchSize < 1 || c.BatchSize > maxBatch:
		return fmt.Errorf("fulfil: %d workers, batches of %d: at least 1 each, batches of at most %d", c.Workers, c.BatchSize, maxBatch)
	case min(c.MaxDeliveries, c.MaxAttempts) < 1:
		return fmt.Errorf("fulfil: %d deliveries, %d attempts: at least 1 each", c.MaxDeliveries, c.MaxAttempts)
	case min(c.Block, c.ClaimIdle, c.ClaimEvery) < time.Millisecond: // what Redis counts in; 0 blocks for ever
		return fmt.Errorf("fulfil: Block %v, ClaimIdle %v, ClaimEvery %v: at least 1 ms each", c.Block, c.ClaimIdle, c.ClaimEvery)
	case min(c.FirstPause, c.MaxPause, c.DiscoverEvery, c.KeepFor, c.FinishTimeout) <= 0:
		return errors.New("fulfil: a pause, interval or timeout is not positive")
	}
	return nil
}

// maxBatch is what the arguments of one script, and of one statement, comfortably hold.
const maxBatch = 2000
