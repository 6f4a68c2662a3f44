package main

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
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

// keyPrefix goes before every key in Redis, and before the names of GET_LOCK.
const keyPrefix = "seckill:"

// lockServers are the servers that locks can be kept in.
type lockServers struct {
	redis     redis.UniversalClient
	nodes     []red.Client // independent of each other; may be empty
	mysql     *sql.DB      // each lock keeps a connection; nil where the database is embedded
	rows      *sql.DB      // for locks that keep none; nil likewise
	zookeeper []string     // may be empty
}

// lockers opens mechanisms and remembers what is to be closed.
type lockers struct {
	byName  map[string]lock.Locker
	closers []io.Closer
	errs    []error
}

// opened is what the New of a mechanism returned.
type opened struct {
	locker lock.Locker
	err    error
}

func open[L lock.Locker](locker L, err error) opened {
	if err != nil {
		return opened{err: err}
	}
	return opened{locker: locker}
}

func (l *lockers) add(mechanisms map[string]opened) {
	for name, o := range mechanisms {
		if o.err != nil {
			l.errs = append(l.errs, fmt.Errorf("opening lock %s: %w", name, o.err))
			continue
		}
		l.byName[name] = o.locker
		if c, ok := o.locker.(io.Closer); ok {
			l.closers = append(l.closers, c)
		}
	}
}

// close ends what runs in the background, last opened first.
func (l *lockers) close() error {
	var errs []error
	for _, c := range slices.Backward(l.closers) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// openLockers makes every mechanism whose servers are there. What some of them run
// in the background ends with closeAll.
func openLockers(servers lockServers, registry prometheus.Registerer, log *slog.Logger) (_ *lock.Registry, closeAll func() error, err error) {
	observer, err := observeLocks(registry)
	if err != nil {
		return nil, nil, err
	}
	l := &lockers{byName: map[string]lock.Locker{"none": none.New(), "local": local.New()}}
	l.openRedis(servers.redis)
	l.openNodes(servers.nodes)
	l.openMySQL(servers.mysql, servers.rows)
	l.openZooKeeper(servers.zookeeper, log)
	for name, locker := range l.byName {
		l.byName[name] = lock.Observe(locker, observer.of(name))
	}
	all, err := lock.NewRegistry(l.byName)
	if err = errors.Join(append(l.errs, err)...); err != nil {
		return nil, nil, errors.Join(err, l.close())
	}
	return all, l.close, nil
}

func (l *lockers) openRedis(client redis.UniversalClient) {
	l.add(map[string]opened{
		"setnx":          open(setnx.New(client, setnx.Config{Prefix: keyPrefix})),
		"setnx-expire":   open(setnxexpire.New(client, setnxexpire.Config{Prefix: keyPrefix})),
		"naive":          open(naive.New(client, naive.Config{Prefix: keyPrefix})),
		"thread-id":      open(threadid.New(client, threadid.Config{Prefix: keyPrefix})),
		"uuid":           open(uuid.New(client, uuid.Config{Prefix: keyPrefix})),
		"uuid-wrong-key": open(uuid.New(client, uuid.Config{Prefix: keyPrefix, ReadsWrongKey: true})),
		"lua":            open(lua.New(client, lua.Config{Prefix: keyPrefix})),
		"reentrant":      open(reentrant.New(client, reentrant.Config{Prefix: keyPrefix})),
		"fair":           open(fair.New(client, fair.Config{Prefix: keyPrefix})),
		"rw":             open(rw.New(client, rw.Config{Prefix: keyPrefix})),
		"fenced":         open(fenced.New(client, fenced.Config{Prefix: keyPrefix})),
	})
}

// openNodes opens the locks over independent nodes; a majority needs three of them.
func (l *lockers) openNodes(nodes []red.Client) {
	if len(nodes) > 0 {
		l.add(map[string]opened{"multi": open(multi.New(nodes, multi.Config{Prefix: keyPrefix}))})
	}
	if len(nodes) >= red.MinNodes {
		l.add(map[string]opened{"red": open(red.New(nodes, red.Config{Prefix: keyPrefix}))})
	}
}

// openMySQL keeps the locks that are rows off the connections of the others: their
// renewals and releases must not wait for somebody else's lock.
func (l *lockers) openMySQL(pool, rows *sql.DB) {
	if pool == nil {
		return
	}
	l.add(map[string]opened{
		"mysql-row":        open(row.New(rows, row.Config{})),
		"mysql-row-expiry": open(row.New(rows, row.Config{Expiry: true})),
		"mysql-get-lock":   open(getlock.New(pool, getlock.Config{Prefix: keyPrefix})),
		"mysql-for-update": open(forupdate.New(pool, forupdate.Config{})),
	})
}

func (l *lockers) openZooKeeper(servers []string, log *slog.Logger) {
	if len(servers) == 0 {
		return
	}
	client, err := zkio.Open(zkio.Config{Servers: servers, Logger: log})
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("SECKILL_ZOOKEEPER_ADDRS: %w", err))
		return
	}
	l.closers = append(l.closers, client)
	l.add(map[string]opened{
		"zk-node":  open(node.New(client, node.Config{})),
		"zk-queue": open(queue.New(client, queue.Config{})),
	})
}
