package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/idworker"
	"seckill/internal/order"
)

// The ways to mint ids.
const (
	idsSonyflake    = "sonyflake"
	idsRedisCounter = "redis-counter"
)

// How long getting a machine id may take at the start, and giving it back at the
// end.
const (
	leaseTimeout   = 15 * time.Second
	unleaseTimeout = 3 * time.Second
)

// idSource is what mints ids, and how it is asked after and closed.
type idSource struct {
	order.IDs
	ready func(context.Context) error
	close func() error
}

// machineIDs is how many machine ids a process leases, for 102,400 ids a second: twice
// what it can accept. With ids for just that, buyers who come in a burst would wait for
// the clock's next tick.
const machineIDs = 4

// openIDs makes the source of ids that the configuration names.
func openIDs(ctx context.Context, kind string, client redis.UniversalClient, log *slog.Logger) (idSource, error) {
	if kind == idsRedisCounter {
		return idSource{
			IDs:   idworker.NewRedisCounter(client, idworker.CounterConfig{KeyPrefix: keyPrefix}),
			ready: func(context.Context) error { return nil }, // as long as Redis is
			close: func() error { return nil },
		}, nil
	}
	leasing, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	ids, err := idworker.NewSonyflake(leasing, client, idworker.Config{KeyPrefix: keyPrefix, Machines: machineIDs, Logger: log})
	if err != nil {
		return idSource{}, fmt.Errorf("lease a machine id from Redis: %w", err)
	}
	return idSource{IDs: ids, ready: ids.Ready, close: func() error {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), unleaseTimeout)
		defer cancel()
		return ids.Close(closing)
	}}, nil
}
