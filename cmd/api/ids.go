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

// The kinds of id generators.
const (
	idsSonyflake    = "sonyflake"
	idsRedisCounter = "redis-counter"
)

// How long leasing the machine ids may take at the start, and returning them at the end.
const (
	leaseTimeout   = 15 * time.Second
	unleaseTimeout = 3 * time.Second
)

// idSource is a generator of ids, with its readiness check and its close function.
type idSource struct {
	order.IDs
	ready func(context.Context) error
	close func() error
}

// machineIDs is the number of machine ids that a process leases, for 102,400 ids a second: twice the number of
// orders that it can accept. With fewer, the orders of a burst would wait for the next tick of the clock.
const machineIDs = 4

// openIDs opens the id generator that the configuration names.
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
		if err := ids.Close(closing); err != nil {
			// Nothing is lost: a machine id that is not returned becomes free when its lease expires.
			log.Warn("machine ids were not returned", "error", err)
		}
		return nil
	}}, nil
}
