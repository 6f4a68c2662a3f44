package fulfil

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/contract"
	"seckill/internal/lock"
	"seckill/internal/order"
)

// Orders reads orders for [Fulfiller.Await]. [order.Store] implements it.
type Orders interface {
	// Order returns an order, or [order.ErrNotFound].
	Order(ctx context.Context, id int64) (order.Order, error)
}

// Config configures a [Fulfiller]. Client, Store, Orders and Log are required; every other zero value means the
// default.
type Config struct {
	// Client should not retry commands (MaxRetries: -1): then the entries whose delivery was lost with a reply are read
	// again at once, instead of after ClaimIdle. Its commands must end with their context (ContextTimeoutEnabled):
	// otherwise a node that hangs blocks the others until the socket times out.
	Client redis.UniversalClient
	Store  contract.AdmissionStore
	Orders Orders
	Log    *slog.Logger

	// Generation returns the generation of the pair of database and Redis, or why they do not belong together: then the
	// workers read nothing. See [pairing.Pairing.Generation]. Default: they do, under generation 0.
	Generation func() (int64, error)
	// Prefix is the prefix of all keys in Redis, the same as the gate's.
	Prefix string
	// Name identifies this process among the others. With a name that survives a restart, the process continues at once
	// with its pending entries. Default: host, process id and a random part.
	Name string
	// WaitReplicas is how many replicas must have an entry before it is written to the database: as many as must have
	// an order before its buyer is told. Default 0.
	WaitReplicas int
	// Workers is the number of concurrent transactions. Default 1.
	Workers int
	// BatchSize is the number of orders in a transaction, if there are as many. Entries with several orders can make it
	// half more. Larger batches need less of the database and delay buyers more. Default 250.
	BatchSize int
	// Linger is how long a worker waits for more entries after a batch that was not full, so that a busy stream is
	// written in fewer transactions. An idle worker processes an entry at once. Default 5 ms; negative: no wait. At
	// 10,000 orders/s it halved the database's work.
	Linger time.Duration
	// Block is how long a read waits for entries. A new voucher and a stop are noticed after at most this time. Default
	// 250 ms.
	Block time.Duration
	// ClaimIdle is how long an entry may be pending at a live worker before another one claims it. Default 30 s.
	ClaimIdle time.Duration
	// ClaimEvery is the time between two searches for such entries. Default a third of ClaimIdle.
	ClaimEvery time.Duration
	// HeartbeatEvery is the time between two heartbeats of the process, and between two searches for entries that
	// nobody works on. A process without a heartbeat for three times as long counts as dead, and its entries are
	// claimed. Default 500 ms.
	HeartbeatEvery time.Duration
	// MaxDeliveries is how often an entry is delivered as part of a batch. After that it is tried alone, because it may
	// be the one that crashes its consumers. Default 3.
	MaxDeliveries int64
	// MaxFailures is how often an order must fail alone before it is rejected, each time with another order of its
	// voucher and bucket written since the failure before. Default 30: with the default of MaxBackoff that takes about
	// half a minute at least. Where one of several servers behind a proxy refuses everything, an order meets the others
	// in that time.
	MaxFailures int64
	// MaxAttempts is how many processes an entry must crash, with other orders written just before, until it is
	// rejected. Default 5.
	MaxAttempts int64
	// MinBackoff and MaxBackoff are the pauses after the first failure and after many. Default 50 ms and 2 s.
	MinBackoff, MaxBackoff time.Duration
	// DiscoverEvery is how often the vouchers are read from the database, and the lengths of the streams from Redis.
	// Default 1 s.
	DiscoverEvery time.Duration
	// RetainFor is how long an empty stream is read after the end of its sale. Default 1 h.
	RetainFor time.Duration
	// FinishTimeout bounds how long the stop waits for batches in progress. Default 10 s.
	FinishTimeout time.Duration

	Observer Observer
	// Faults are injected into every batch. Default none.
	//
	//	critical-section  read, nothing written
	//	after-commit      written, not acknowledged
	//	before-release    rejected in the database, reservation not returned
	Faults *lock.Faults
}

func (c Config) withDefaults() Config {
	if c.Generation == nil {
		c.Generation = func() (int64, error) { return 0, nil }
	}
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown" // the rest of the name is unique
		}
		c.Name = fmt.Sprintf("%s-%d-%s", host, os.Getpid(), randomName())
	}
	c.Observer = c.Observer.withDefaults()
	c.Workers = cmp.Or(c.Workers, 1)
	c.BatchSize = cmp.Or(c.BatchSize, 250)
	c.Linger = cmp.Or(c.Linger, 5*time.Millisecond)
	c.Block = cmp.Or(c.Block, 250*time.Millisecond)
	c.ClaimIdle = cmp.Or(c.ClaimIdle, 30*time.Second)
	c.ClaimEvery = cmp.Or(c.ClaimEvery, c.ClaimIdle/3)
	c.HeartbeatEvery = cmp.Or(c.HeartbeatEvery, 500*time.Millisecond)
	c.MaxDeliveries = cmp.Or(c.MaxDeliveries, 3)
	c.MaxFailures = cmp.Or(c.MaxFailures, 30)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 5)
	c.MinBackoff = cmp.Or(c.MinBackoff, 50*time.Millisecond)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, 2*time.Second)
	c.DiscoverEvery = cmp.Or(c.DiscoverEvery, time.Second)
	c.RetainFor = cmp.Or(c.RetainFor, time.Hour)
	c.FinishTimeout = cmp.Or(c.FinishTimeout, 10*time.Second)
	return c
}

// Validate returns an error if a required field is missing or a value is out of range.
func (c Config) Validate() error {
	if c.Client == nil || c.Store == nil || c.Orders == nil || c.Log == nil {
		return errors.New("fulfil: incomplete configuration")
	}
	c = c.withDefaults()
	switch {
	case c.Workers < 1 || c.BatchSize < 1 || c.BatchSize > maxBatch:
		return fmt.Errorf("fulfil: %d workers, batches of %d: at least 1 each, batches of at most %d", c.Workers, c.BatchSize, maxBatch)
	case strings.Contains(c.Name, " "): // a list of names is separated by spaces
		return fmt.Errorf("fulfil: the name %q has a space", c.Name)
	case c.WaitReplicas < 0:
		return fmt.Errorf("fulfil: WaitReplicas is %d, less than 0", c.WaitReplicas)
	case min(c.MaxDeliveries, c.MaxFailures, c.MaxAttempts) < 1:
		return fmt.Errorf("fulfil: %d deliveries, %d failures, %d attempts: at least 1 each", c.MaxDeliveries, c.MaxFailures, c.MaxAttempts)
	case min(c.Block, c.ClaimIdle, c.ClaimEvery, c.HeartbeatEvery) < time.Millisecond: // Redis counts in ms, and blocks for ever on 0
		return fmt.Errorf("fulfil: Block %v, ClaimIdle %v, ClaimEvery %v, HeartbeatEvery %v: at least 1 ms each", c.Block, c.ClaimIdle, c.ClaimEvery, c.HeartbeatEvery)
	case min(c.MinBackoff, c.MaxBackoff, c.DiscoverEvery, c.RetainFor, c.FinishTimeout) <= 0:
		return errors.New("fulfil: a pause, interval or timeout is not positive")
	}
	return nil
}

// maxBatch keeps the number of arguments of one script and of one SQL statement moderate. Half more, as entries with
// several orders can make it, is still fewer than the database's own limit.
const maxBatch = 1300

// warn logs what failed, unless ctx has ended.
func (c *Config) warn(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		c.Log.LogAttrs(ctx, slog.LevelWarn, "fulfil: "+what, slog.Any("error", err))
	}
}

// generation is the latest known generation.
func (c *Config) generation() int64 {
	n, _ := c.Generation()
	return n
}
