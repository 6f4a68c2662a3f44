package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"seckill/internal/idworker"
	"seckill/internal/lock/mysql/row"
	"seckill/internal/order"
	"seckill/internal/rediswatch"
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

// machineIDs is the number of machine ids that a process leases, for 102,400 ids a second: twice the number of orders
// that it can accept. With fewer, the orders of a burst would wait for the next tick of the clock.
const machineIDs = 4

// The machine ids that are leased from Redis are those before firstDatabaseMachine, and the others from the database.
const firstDatabaseMachine = 3 << 14

// openIDs opens the id generator that the configuration names.
func openIDs(ctx context.Context, cfg Config, stores *stores, log *slog.Logger) (idSource, error) {
	if cfg.IDs == idsRedisCounter {
		return idSource{
			IDs:   idworker.NewRedisCounter(stores.redis, idworker.CounterConfig{KeyPrefix: cfg.keyPrefix()}),
			ready: func(ctx context.Context) error { return rediswatch.Write(ctx, stores.redis, cfg.probePrefix()) },
			close: func() error { return nil },
		}, nil
	}
	leasing, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	ids, err := idworker.NewSonyflake(leasing, stores.redis, idworker.Config{
		KeyPrefix: cfg.keyPrefix(), Machines: machineIDs, LastMachine: firstDatabaseMachine - 1, Logger: log,
	})
	if err != nil {
		return idSource{}, fmt.Errorf("lease a machine id from Redis: %w", err)
	}
	first := idSource{IDs: ids, ready: ids.Ready, close: closeIDs(ctx, ids, log)}
	if stores.db.RowPool() == nil {
		return first, nil
	}
	second, err := openDatabaseIDs(leasing, stores, log)
	if err != nil {
		return idSource{}, errors.Join(err, first.close())
	}
	return eitherIDs(first, second), nil
}

// openDatabaseIDs leases a machine id from the database, for vouchers that need no Redis while it is away.
func openDatabaseIDs(ctx context.Context, stores *stores, log *slog.Logger) (idSource, error) {
	locker, err := row.New(stores.db.RowPool(), row.Config{Expiry: true})
	if err != nil {
		return idSource{}, err
	}
	// Without a log: this one is only missed when the database and Redis are away, which both say themselves.
	ids, err := idworker.NewSonyflakeWithLocks(ctx, locker, idworker.Config{Machines: 1, FirstMachine: firstDatabaseMachine})
	if err != nil {
		return idSource{}, errors.Join(fmt.Errorf("lease a machine id from the database: %w", err), locker.Close())
	}
	closeGenerator := closeIDs(ctx, ids, log)
	return idSource{IDs: ids, ready: ids.Ready, close: func() error { return errors.Join(closeGenerator(), locker.Close()) }}, nil
}

func closeIDs(ctx context.Context, ids *idworker.Sonyflake, log *slog.Logger) func() error {
	return func() error {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), unleaseTimeout)
		defer cancel()
		if err := ids.Close(closing); err != nil {
			// Nothing is lost: a machine id that is not returned becomes free when its lease expires.
			log.Warn("machine ids were not returned", "error", err)
		}
		return nil
	}
}

// eitherIDs takes ids from the second source while the first has none.
func eitherIDs(first, second idSource) idSource {
	return idSource{
		IDs: idsFrom(func(ctx context.Context) (int64, error) {
			id, err := first.NextID(ctx)
			if errors.Is(err, idworker.ErrNoLease) {
				return second.NextID(ctx)
			}
			return id, err
		}),
		ready: func(ctx context.Context) error {
			err := first.ready(ctx)
			if err == nil {
				return nil
			}
			if other := second.ready(ctx); other != nil {
				return errors.Join(err, other)
			}
			return nil
		},
		close: func() error { return errors.Join(first.close(), second.close()) },
	}
}

// idsFrom makes a function an [order.IDs].
type idsFrom func(ctx context.Context) (int64, error)

// NextID implements [order.IDs].
func (f idsFrom) NextID(ctx context.Context) (int64, error) { return f(ctx) }
