package main

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
	"seckill/internal/trace"
)

// keyPrefix goes before every key in Redis, and before the names of GET_LOCK.
const keyPrefix = "seckill:"

// openLockers makes every mechanism whose servers are there, observed and, where rec
// is not nil, recorded.
func openLockers(servers lockers.Servers, cfg config, registry prometheus.Registerer, rec *trace.Recorder, log *slog.Logger) (*lockers.Set, error) {
	observer, err := observeLocks(registry)
	if err != nil {
		return nil, err
	}
	return lockers.Open(servers, lockers.Config{
		Prefix: keyPrefix, Watchdog: cfg.LockWatchdog, Log: log,
		Wrap: func(name string, l lock.Locker) lock.Locker {
			if rec != nil {
				l = trace.Locker(name, l, rec)
			}
			return lock.Observe(l, observer.of(name))
		},
	})
}
