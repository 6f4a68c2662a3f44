// Package lockers opens all mechanisms whose servers are configured. The service and the laboratory use it. It is the
// one place that knows every mechanism.
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
	"seckill/internal/lock/redis/native"
	"seckill/internal/lock/redis/plain"
	"seckill/internal/lock/redis/red"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/lock/redis/rw"
	"seckill/internal/lock/redis/setnx"
	"seckill/internal/lock/redis/setnxexpire"
	"seckill/internal/lock/redis/threadid"
	"seckill/internal/lock/redis/uuid"
	"seckill/internal/lock/redis/waited"
	"seckill/internal/lock/zookeeper/node"
	"seckill/internal/lock/zookeeper/queue"
	"seckill/internal/lock/zookeeper/zkio"
)

// Servers are the servers that keep locks. Each may be missing; then the mechanisms that need it are missing too. The
// caller closes them, after the [Set].
type Servers struct {
	Redis redis.UniversalClient
	// Nodes are independent Redis servers: at least one for multi, at least [red.MinNodes] for red.
	Nodes []red.Client
	// MySQL is the pool for locks that keep a connection while they are held, Rows the pool for locks that do not. They
	// are two pools because the renewals and releases of the latter must not wait for a connection.
	MySQL, Rows *sql.DB
	// ZooKeeper lists the members of an ensemble, each as host:port. The Set opens its own connection.
	ZooKeeper []string
}

// Config configures the mechanisms. The zero value takes every default.
type Config struct {
	// Prefix comes before every key in Redis, and before the names of GET_LOCK.
	Prefix string
	// Watchdog is the length of leases that are renewed. Default: each mechanism's own.
	Watchdog time.Duration
	// NodeTimeout bounds a round trip to one of the Nodes. Default: the mechanism's own.
	NodeTimeout time.Duration
	// ZooKeeperSession is how long the locks of a dead process stay in ZooKeeper. The servers may raise it. Default:
	// zkio's.
	ZooKeeperSession time.Duration
	// Only is the one mechanism to open. Empty: all of them.
	Only string
	// Poll is how waiters poll in Redis: those that are not told when the lock is free, and those that are, in case the
	// message is lost.
	Poll lock.Polling
	// Wrap decorates each mechanism, for example with [lock.Observe]. nil: no decoration.
	Wrap func(name string, l lock.Locker) lock.Locker
	// Log receives the messages of the drivers. nil: they are dropped.
	Log *slog.Logger
}

// Set holds the mechanisms that were opened, by name.
type Set struct {
	*lock.Registry
	closers []io.Closer
}

// Open opens every mechanism whose servers are configured. It does not talk to them yet, so it succeeds while they are
// down.
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

// Close stops the background goroutines of the mechanisms, last opened first. It releases nothing: release first.
func (s *Set) Close() error {
	var errs []error
	for _, c := range slices.Backward(s.closers) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Reader returns the locker for readers of a mechanism: [errors.ErrUnsupported] where it has none, or a decorator hides
// it.
func (s *Set) Reader(name string) (lock.Locker, error) {
	l, err := s.Locker(name)
	if err != nil {
		return nil, err
	}
	if rw, ok := l.(interface{ Reader() lock.Locker }); ok {
		return rw.Reader(), nil
	}
	return nil, fmt.Errorf("lock %s has no readers: %w", name, errors.ErrUnsupported)
}

// opening collects the mechanisms that were opened, those to close, and the errors.
type opening struct {
	config  Config
	byName  map[string]lock.Locker
	closers []io.Closer
	errs    []error
}

// offers are mechanisms that can be opened, by name.
type offers map[string]func() (lock.Locker, error)

func (o *opening) add(all offers) {
	for name, open := range all {
		if o.config.Only != "" && o.config.Only != name {
			continue
		}
		l, err := open()
		if err != nil {
			o.errs = append(o.errs, fmt.Errorf("opening lock %s: %w", name, err))
			continue
		}
		o.byName[name] = l
		if c, ok := l.(io.Closer); ok {
			o.closers = append(o.closers, c)
		}
	}
}

func (o *opening) redis(client redis.UniversalClient) {
	prefix, watchdog := o.config.Prefix, o.config.Watchdog
	polled := plain.Config{Prefix: prefix, Poll: o.config.Poll}
	told := reentrant.Config{Prefix: prefix, WatchdogTimeout: watchdog, QueueEntryTTL: 3 * o.config.Poll.Every}
	o.add(offers{
		"setnx":          func() (lock.Locker, error) { return setnx.New(client, polled) },
		"setnx-expire":   func() (lock.Locker, error) { return setnxexpire.New(client, polled) },
		"naive":          func() (lock.Locker, error) { return naive.New(client, polled) },
		"thread-id":      func() (lock.Locker, error) { return threadid.New(client, polled) },
		"uuid":           func() (lock.Locker, error) { return uuid.New(client, polled) },
		"uuid-wrong-key": func() (lock.Locker, error) { return uuid.NewReadingWrongKey(client, polled) },
		"lua":            func() (lock.Locker, error) { return lua.New(client, polled) },
		"native": func() (lock.Locker, error) {
			return native.New(client, native.Config{Config: polled, WatchdogTimeout: watchdog})
		},
		"reentrant": func() (lock.Locker, error) { return reentrant.New(client, told) },
		"waited":    func() (lock.Locker, error) { return waited.New(client, told) },
		"fair":      func() (lock.Locker, error) { return fair.New(client, told) },
		"rw":        func() (lock.Locker, error) { return rw.New(client, told) },
		"fenced":    func() (lock.Locker, error) { return fenced.New(client, told) },
	})
}

func (o *opening) nodes(nodes []red.Client) {
	// red and multi have the same type of configuration.
	config := red.Config{
		Prefix: o.config.Prefix, WatchdogTimeout: o.config.Watchdog, NodeTimeout: o.config.NodeTimeout, Poll: o.config.Poll,
	}
	if len(nodes) > 0 {
		o.add(offers{"multi": func() (lock.Locker, error) { return multi.New(nodes, config) }})
	}
	if len(nodes) >= red.MinNodes {
		o.add(offers{"red": func() (lock.Locker, error) { return red.New(nodes, config) }})
	}
}

func (o *opening) mysql(pool *sql.DB) {
	o.add(offers{
		"mysql-get-lock":   func() (lock.Locker, error) { return getlock.New(pool, getlock.Config{Prefix: o.config.Prefix}) },
		"mysql-for-update": func() (lock.Locker, error) { return forupdate.New(pool, forupdate.Config{}) },
	})
}

func (o *opening) rows(pool *sql.DB) {
	o.add(offers{
		"mysql-row": func() (lock.Locker, error) { return row.New(pool, row.Config{}) },
		"mysql-row-expiry": func() (lock.Locker, error) {
			return row.New(pool, row.Config{Expiry: true, WatchdogTimeout: o.config.Watchdog})
		},
	})
}

func (o *opening) zookeeper(servers []string) {
	client, err := zkio.Open(zkio.Config{
		Servers: servers, SessionTimeout: o.config.ZooKeeperSession, Logger: o.config.Log,
	})
	if err != nil {
		o.errs = append(o.errs, fmt.Errorf("opening ZooKeeper: %w", err))
		return
	}
	o.closers = append(o.closers, client)
	o.add(offers{
		"zk-node":  func() (lock.Locker, error) { return node.New(client, node.Config{}) },
		"zk-queue": func() (lock.Locker, error) { return queue.New(client, queue.Config{}) },
	})
}
