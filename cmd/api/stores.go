package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/redis/go-redis/v9"

	"seckill/internal/database"
	"seckill/internal/lock/lockers"
	"seckill/internal/lock/redis/red"
)

// stores are the servers that the service keeps its data in.
type stores struct {
	db    *database.DB
	redis redis.UniversalClient
	// orders is the same Redis, for the orders in it: a client that repeats nothing by
	// itself, but for a cluster's, which follows its slots and goes on to another node after
	// a failure, whatever it was told of repetitions. There the gate keeps it from repeating
	// what must not be decided twice, and what fulfil sends may be repeated.
	orders redis.UniversalClient
	// nodes are independent Redis servers, for the locks that ask several.
	nodes   []red.Client
	closers []func() error
}

// openStores connects to the database and to Redis, the embedded ones where none
// are given, and brings the schema up to date.
func openStores(ctx context.Context, cfg config, log *slog.Logger) (_ *stores, err error) {
	s := &stores{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()

	config := database.Config{MySQL: cfg.MySQLDSN, Logger: log}
	if cfg.Embedded {
		e, err := openEmbedded()
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, e.close)
		config.SQLite = e.sqlite()
		cfg.RedisAddrs = []string{e.redis.Addr()}
		if len(cfg.LockRedisAddrs) == 0 {
			cfg.LockRedisAddrs = e.nodeAddrs()
		}
	}
	s.redis, err = openRedis(ctx, cfg.RedisAddrs, cfg.RedisMaster, cfg.RedisPassword, repeating)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.redis.Close)
	s.orders, err = openRedis(ctx, cfg.RedisAddrs, cfg.RedisMaster, cfg.RedisPassword, notRepeating)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.orders.Close)
	for _, addr := range cfg.LockRedisAddrs {
		node := openNode(addr, cfg.RedisPassword)
		s.nodes = append(s.nodes, node)
		s.closers = append(s.closers, node.Close)
	}
	s.db, err = database.Open(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("SECKILL_MYSQL_DSN: %w", err)
	}
	s.closers = append(s.closers, s.db.Close)
	migrated, err := s.db.Migrate(ctx)
	if err != nil {
		return nil, err
	}
	log.Info("schema is up to date", "database", s.db.Engine(), "version", migrated.To, "was", migrated.From)
	return s, nil
}

// locks are those of the servers that locks can be kept in.
func (s *stores) locks(zookeeper []string) lockers.Servers {
	return lockers.Servers{
		Redis: s.redis, Nodes: s.nodes, MySQL: s.db.LockPool(), Rows: s.db.RowPool(), ZooKeeper: zookeeper,
	}
}

// close closes what was opened, last first.
func (s *stores) close() error {
	var failed []error
	for _, closeOne := range slices.Backward(s.closers) {
		failed = append(failed, closeOne())
	}
	return errors.Join(failed...)
}
