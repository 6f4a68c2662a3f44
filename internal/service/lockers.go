package service

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/eventlog"
	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
	"seckill/internal/metrics"
	"seckill/internal/rediswatch"
	"seckill/internal/voucher"
)

// KeyPrefix is the prefix of every key in Redis and of the names of GET_LOCK, unless configured otherwise.
const KeyPrefix = "seckill:"

func (c *Config) keyPrefix() string { return cmp.Or(c.KeyPrefix, KeyPrefix) }

// openLockers opens every mechanism whose servers are configured, with metrics and the count of handovers, with the
// guard against eviction and, if rec is not nil, with the event log.
func openLockers(
	servers lockers.Servers, cfg Config, registry prometheus.Registerer, handovers *lock.Handovers, guard *rediswatch.Guard,
	rec *eventlog.Recorder, log *slog.Logger,
) (*lockers.Set, error) {
	observer, err := metrics.NewLocks(registry)
	if err != nil {
		return nil, err
	}
	return lockers.Open(servers, lockers.Config{
		Prefix: cfg.keyPrefix(), Watchdog: cfg.LockWatchdog, Log: log,
		Wrap: func(name string, l lock.Locker) lock.Locker {
			if rec != nil {
				l = eventlog.Locker(name, l, rec)
			}
			observed := observer.Observer(name)
			observed.Granted = handovers.Of(name)
			return lock.Observe(guard.Locker(name, l), observed)
		},
	})
}

// hintingLockers adds to the error of a mechanism without servers the setting that names them.
type hintingLockers struct{ voucher.Lockers }

// Locker implements [voucher.Lockers].
func (l hintingLockers) Locker(name string) (lock.Locker, error) {
	locker, err := l.Lockers.Locker(name)
	if !errors.Is(err, lock.ErrNotConfigured) {
		return locker, err
	}
	setting := map[lock.Store]string{
		lock.InNodes: "SECKILL_LOCK_REDIS_ADDRS", lock.InZooKeeper: "SECKILL_ZOOKEEPER_ADDRS", lock.InMySQL: "SECKILL_MYSQL_DSN",
	}[lock.StoreOf(name)]
	return nil, fmt.Errorf("%w; to have it, set %s", err, setting)
}
