package main

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/eventlog"
	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
	"seckill/internal/metrics"
	"seckill/internal/rediswatch"
)

// keyPrefix is the prefix of every key in Redis and of the names of GET_LOCK.
const keyPrefix = "seckill:"

// openLockers opens every mechanism whose servers are configured, with metrics, with the guard against eviction
// and, if rec is not nil, with the event log.
func openLockers(
	servers lockers.Servers, cfg config, registry prometheus.Registerer, guard *rediswatch.Guard, rec *eventlog.Recorder, log *slog.Logger,
) (*lockers.Set, error) {
	observer, err := metrics.NewLocks(registry)
	if err != nil {
		return nil, err
	}
	return lockers.Open(servers, lockers.Config{
		Prefix: keyPrefix, Watchdog: cfg.LockWatchdog, Log: log,
		Wrap: func(name string, l lock.Locker) lock.Locker {
			if rec != nil {
				l = eventlog.Locker(name, l, rec)
			}
			return lock.Observe(guard.Locker(name, l), observer.Observer(name))
		},
	})
}
