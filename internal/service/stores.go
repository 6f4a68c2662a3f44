package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/database"
	"seckill/internal/embedded"
	"seckill/internal/lock/lockers"
	"seckill/internal/lock/redis/red"
	"seckill/internal/pairing"
)

// stores are the servers with the service's data.
type stores struct {
	db    *database.DB
	redis redis.UniversalClient
	// orders is the same Redis, with a client for the admission flow that retries nothing by itself. A cluster client
	// is an exception: it follows its slots and tries another node after a failure, whatever its number of retries.
	// There the gate prevents the repetition of commands that must not be decided twice, and the commands of fulfil may
	// be repeated.
	orders redis.UniversalClient
	// nodes are independent Redis servers, for the locks that use several.
	nodes []red.Client
	// pair ties the database to Redis; nil where both are embedded, and nobody else can reach them.
	pair    *pairing.Pairing
	closers []func() error
}

// admission returns the store of accepted orders, which writes nothing while the database and Redis do not belong
// together.
func (s *stores) admission() *database.AdmissionStore {
	return s.db.AdmissionStore().WithPair(s.pair.Generation)
}

func newPairing(cfg Config, client redis.UniversalClient, db *database.DB, log *slog.Logger) *pairing.Pairing {
	return pairing.New(pairing.Config{
		Database: db.Pairs(), Redis: ledger.NewPair(client, cfg.keyPrefix()),
		DatabaseName: database.NameOf(cfg.MySQLDSN), RedisName: cfg.redisName(), Log: log,
	})
}

// startPairing looks whether the stores belong together, and looks again until the stores are closed. A start that
// fails for another reason should not have paired them before.
func (s *stores) startPairing(ctx context.Context) {
	if s.pair == nil {
		return
	}
	s.pair.Start(ctx) // where they do not, the log says so, and the instance is not ready
	looking, stop := context.WithCancel(context.WithoutCancel(ctx))
	var ended sync.WaitGroup
	ended.Go(func() { s.pair.Run(looking) })
	s.closers = append(s.closers, func() error { stop(); ended.Wait(); return nil })
}

// openStores connects to the database and to Redis, or starts the embedded ones, and migrates the schema.
func openStores(ctx context.Context, cfg Config, log *slog.Logger) (_ *stores, err error) {
	s := &stores{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()

	var dial dialer
	var sqlite string
	var nodes []*redis.Client
	if cfg.Embedded {
		e, err := embedded.Open()
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, e.Close)
		sqlite = e.SQLite()
		cfg.RedisAddrs, dial = []string{"embedded"}, e.Redis().Dial
		if len(cfg.LockRedisAddrs) == 0 {
			for i, node := range e.Nodes() { // the address is only a name: Dial ignores it
				nodes = append(nodes, openNode(fmt.Sprintf("embedded-%d", i+1), Config{}, nil, node.Dial))
			}
		}
	}
	s.redis, err = openRedis(ctx, cfg, dial, retries)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.redis.Close)
	s.orders, err = openRedis(ctx, cfg, dial, noRetries)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.orders.Close)
	encrypted, err := cfg.Redis.TLS.load(redisTLS)
	if err != nil {
		return nil, err
	}
	for _, addr := range cfg.LockRedisAddrs {
		nodes = append(nodes, openNode(addr, cfg, encrypted, nil))
	}
	for _, node := range nodes {
		s.nodes = append(s.nodes, node)
		s.closers = append(s.closers, node.Close)
	}
	if err := checkIndependent(ctx, nodes); err != nil {
		return nil, err
	}
	s.db, err = openDatabase(ctx, cfg, sqlite, log)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.db.Close)
	warnConnections(ctx, s.db, log)
	migrated, err := s.db.Migrate(ctx)
	if err != nil {
		return nil, err
	}
	log.Info("schema is up to date", "database", s.db.Engine(), "version", migrated.To, "was", migrated.From)
	if !cfg.Embedded {
		s.pair = newPairing(cfg, s.orders, s.db, log)
	}
	return s, nil
}

// locks returns the servers that can keep locks.
func (s *stores) locks(zookeeper []string) lockers.Servers {
	return lockers.Servers{
		Redis: s.redis, Nodes: s.nodes, MySQL: s.db.LockPool(), Rows: s.db.RowPool(), ZooKeeper: zookeeper,
	}
}

// close closes everything in reverse order.
func (s *stores) close() error {
	var failed []error
	for _, closeOne := range slices.Backward(s.closers) {
		failed = append(failed, closeOne())
	}
	return errors.Join(failed...)
}
