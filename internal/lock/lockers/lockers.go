// Package lockers opens the mechanisms: all of those whose servers are there. It is
// what the processes of this project share that use locks, the service and the
// laboratory's, and the one place that knows every mechanism.
package lockers

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/local"
	"seckill/internal/lock/mysql/forupdate"
	"seckill/internal/lock/mysql/getlock"
	"seckill/internal/lock/mysql/row"
	"seckill/internal/lock/none"
	"seckill/internal/lock/redis/fair"
	"seckill/internal/lock/redis/fenced"
	"seckill/internal/lock/redis/lua"
	"seckill/internal/lock/redis/multi"
	"seckill/internal/lock/redis/naive"
	"seckill/internal/lock/redis/red"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/lock/redis/rw"
	"seckill/internal/lock/redis/setnx"
	"seckill/internal/lock/redis/setnxexpire"
	"seckill/internal/lock/redis/threadid"
	"seckill/internal/lock/redis/uuid"
	"seckill/internal/lock/zookeeper/node"
	"seckill/internal/lock/zookeeper/queue"
	"seckill/internal/lock/zookeeper/zkio"
)

// Servers are those that locks can be kept in. Each may be missing; the mechanisms
// that need it then are, too. They stay the caller's, and outlive the [Set].
type Servers struct {
	Redis redis.UniversalClient
	// Nodes are independent of each other: one or more for multi, [red.MinNodes] or
	// more for red.
	Nodes []red.Client
	// MySQL is a pool of which each lock keeps a connection, Rows one for the locks
	// that keep none: their renewals and releases must not wait for somebody else's
	// lock.
	MySQL, Rows *sql.DB
	// ZooKeeper are the members of an ensemble, host:port each. The Set connects by
	// itself.
	ZooKeeper []string
}

// Config says how the mechanisms work. The zero value takes every default.
type Config struct {
	// Prefix goes before every key in Redis, and before the names of GET_LOCK.
	Prefix string
	// Watchdog is the lease of the acquisitions that ask for none and are renewed.
	// Default: each mechanism's own.
	Watchdog time.Duration
	// NodeTimeout bounds a round trip to one of several nodes. Default: the
	// mechanism's own.
	NodeTimeout time.Duration
	// ZooKeeperSession is how long the locks of a process that died stay in
	// ZooKeeper. Its servers may raise it. Default: zkio's.
	ZooKeeperSession time.Duration
	// Wrap puts something around a mechanism, such as [lock.Observe]. nil: nothing.
	Wrap func(name string, l lock.Locker) lock.Locker
	// Log receives what the drivers have to say. Default: nobody.
	Log *slog.Logger
}

// Set is the mechanisms that were opened, by name.
type Set struct {
	*lock.Registry
	closers []io.Closer
}

// Open makes every mechanism whose servers are there. It does not talk to them yet,
// so that it succeeds while they are down.
func Open(servers Servers, config Config) (*Set, error) {
	o := &opening{config: config, byName: map[string]lock.Locker{"none": none.New(), "local": local.New()}}
	if servers.Redis != nil {
		o.redis(servers.Redis)
	}
	o.nodes(servers.Nodes)
	if servers.MySQL != nil {
		o.mysql(servers.MySQL)
	}
	if servers.Rows != nil {
		o.rows(servers.Rows)
	}
	if len(servers.ZooKeeper) > 0 {
		o.zookeeper(servers.ZooKeeper)
	}
	if config.Wrap != nil {
		for name, l := range o.byName {
			o.byName[name] = config.Wrap(name, l)
		}
	}
	set := &Set{closers: o.closers}
	var err error
	set.Registry, err = lock.NewRegistry(o.byName)
	if err = errors.Join(append(o.errs, err)...); err != nil {
		return nil, errors.Join(err, set.Close())
	}
	return set, nil
}

// Close ends what the mechanisms run in the background, last opened first. It gives
// nothing back: release first.
func (s *Set) Close() error {
	var errs []error
	for _, c := range slices.Backward(s.closers) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Reader is the side of a mechanism that locks together with other readers:
// [errors.ErrUnsupported] where it has none, or what it was wrapped in hides it.
func (s *Set) Reader(name string) (lock.Locker, error) {
	l, err := s.Locker(name)
	if err != nil {
		return nil, err
	}
	if sides, ok := l.(interface{ Reader() lock.Locker }); ok {
		return sides.Reader(), nil
	}
	return nil, fmt.Errorf("lock %s has no readers: %w", name, errors.ErrUnsupported)
}

// opening collects what is opened, what is to be closed and what went wrong.
type opening struct {
	config  Config
	byName  map[string]lock.Locker
	closers []io.Closer
	errs    []error
}

// mechanism is what the New of one returned.
type mechanism struct {
	locker lock.Locker
	err    error
}

func made[L lock.Locker](locker L, err error) mechanism {
	if err != nil {
		return mechanism{err: err} // and no interface around a nil pointer
	}
	return mechanism{locker: locker}
}

func (o *opening) add(mechanisms map[string]mechanism) {
	for name, m := range mechanisms {
		if m.err != nil {
			o.errs = append(o.errs, fmt.Errorf("opening lock %s: %w", name, m.err))
			continue
		}
		o.byName[name] = m.locker
		if c, ok := m.locker.(io.Closer); ok {
			o.closers = append(o.closers, c)
		}
	}
}

func (o *opening) redis(client redis.UniversalClient) {
	prefix, watchdog := o.config.Prefix, o.config.Watchdog
	o.add(map[string]mechanism{
		"setnx":          made(setnx.New(client, setnx.Config{Prefix: prefix})),
		"setnx-expire":   made(setnxexpire.New(client, setnxexpire.Config{Prefix: prefix})),
		"naive":          made(naive.New(client, naive.Config{Prefix: prefix})),
		"thread-id":      made(threadid.New(client, threadid.Config{Prefix: prefix})),
		"uuid":           made(uuid.New(client, uuid.Config{Prefix: prefix})),
		"uuid-wrong-key": made(uuid.New(client, uuid.Config{Prefix: prefix, ReadsWrongKey: true})),
		"lua":            made(lua.New(client, lua.Config{Prefix: prefix})),
		"reentrant":      made(reentrant.New(client, reentrant.Config{Prefix: prefix, WatchdogTimeout: watchdog})),
		"fair":           made(fair.New(client, fair.Config{Prefix: prefix, WatchdogTimeout: watchdog})),
		"rw":             made(rw.New(client, rw.Config{Prefix: prefix, WatchdogTimeout: watchdog})),
		"fenced":         made(fenced.New(client, fenced.Config{Prefix: prefix, WatchdogTimeout: watchdog})),
	})
}

func (o *opening) nodes(nodes []red.Client) {
	// The two have one kind of configuration.
	config := red.Config{Prefix: o.config.Prefix, WatchdogTimeout: o.config.Watchdog, NodeTimeout: o.config.NodeTimeout}
	if len(nodes) > 0 {
		o.add(map[string]mechanism{"multi": made(multi.New(nodes, config))})
	}
	if len(nodes) >= red.MinNodes {
		o.add(map[string]mechanism{"red": made(red.New(nodes, config))})
	}
}

func (o *opening) mysql(pool *sql.DB) {
	o.add(map[string]mechanism{
		"mysql-get-lock":   made(getlock.New(pool, getlock.Config{Prefix: o.config.Prefix})),
		"mysql-for-update": made(forupdate.New(pool, forupdate.Config{})),
	})
}

func (o *opening) rows(pool *sql.DB) {
	o.add(map[string]mechanism{
		"mysql-row":        made(row.New(pool, row.Config{})),
		"mysql-row-expiry": made(row.New(pool, row.Config{Expiry: true, WatchdogTimeout: o.config.Watchdog})),
	})
}

func (o *opening) zookeeper(servers []string) {
	client, err := zkio.Open(zkio.Config{Servers: servers, SessionTimeout: o.config.ZooKeeperSession, Logger: o.config.Log})
	if err != nil {
		o.errs = append(o.errs, fmt.Errorf("opening ZooKeeper: %w", err))
		return
	}
	o.closers = append(o.closers, client)
	o.add(map[string]mechanism{
		"zk-node":  made(node.New(client, node.Config{})),
		"zk-queue": made(queue.New(client, queue.Config{})),
	})
}
