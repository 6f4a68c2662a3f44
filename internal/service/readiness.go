package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/red"
	"seckill/internal/readiness"
	"seckill/internal/rediswatch"
	"seckill/internal/voucher"
)

// The flows of /readyz: admission, and the locked flow by the servers that keep the lock.
const (
	flowAdmission  = "admission"
	flowRedis      = "locked-redis"
	flowRedisNodes = "locked-redis-nodes"
	flowMySQL      = "locked-mysql"
	flowZooKeeper  = "locked-zookeeper"
	flowLocal      = "locked-local" // no lock, or one in the process
)

// flowOf returns the flow of /readyz by which a voucher is sold.
func flowOf(flow voucher.Flow, mechanism string) string {
	if flow == voucher.FlowAdmission {
		return flowAdmission
	}
	return map[lock.Store]string{
		lock.InProcess: flowLocal, lock.InRedis: flowRedis, lock.InNodes: flowRedisNodes,
		lock.InMySQL: flowMySQL, lock.InZooKeeper: flowZooKeeper,
	}[lock.StoreOf(mechanism)]
}

// readinessConfig returns the checks of /readyz, and the flows that this process can serve with what each of them needs. The
// checks do what the flows do: they write.
// No flow needs persistence: while the database takes no orders, admission accepts and keeps them.
func readinessConfig(cfg Config, stores *stores, admission *admissionFlow, guard *rediswatch.Guard, ids idSource) readiness.Config {
	checks := []readiness.Check{
		{Name: "database", Ask: stores.db.Writable},
		{Name: "persistence", Ask: admission.fulfiller.Check},
		{Name: "redis", Ask: func(ctx context.Context) error { return rediswatch.Write(ctx, stores.redis, cfg.probePrefix()) }},
		{Name: "eviction", Ask: guard.Ready},
		{Name: "ids", Ask: ids.ready},
		{Name: "stores", Ask: stores.pair.Ready},
	}
	flows := []readiness.Flow{
		{Name: flowAdmission, Needs: []string{"redis", "eviction", "ids", "stores"}},
		{Name: flowRedis, Needs: []string{"database", "redis", "eviction", "ids", "stores"}},
	}
	if cfg.Lab {
		flows = append(flows, readiness.Flow{Name: flowLocal, Needs: []string{"database", "ids", "stores"}})
	}
	if stores.db.LockPool() != nil {
		flows = append(flows, readiness.Flow{Name: flowMySQL, Needs: []string{"database", "ids", "stores"}})
	}
	if len(stores.nodes) > 0 {
		checks = append(checks, readiness.Check{Name: "lock-redis", Ask: func(ctx context.Context) error {
			return errors.Join(askNodes(ctx, stores.nodes, cfg.probePrefix()), guard.NodesReady())
		}})
		flows = append(flows, readiness.Flow{Name: flowRedisNodes, Needs: []string{"database", "lock-redis", "ids", "stores"}})
	}
	if len(cfg.ZooKeeperAddrs) > 0 {
		checks = append(checks, readiness.Check{Name: "zookeeper", Ask: func(ctx context.Context) error { return askZooKeeper(ctx, cfg.ZooKeeperAddrs) }})
		flows = append(flows, readiness.Flow{Name: flowZooKeeper, Needs: []string{"database", "zookeeper", "ids", "stores"}})
	}
	return readiness.Config{Checks: checks, Flows: flows, Sold: sold(stores)}
}

// sold returns how many vouchers are sold by each flow.
func sold(stores *stores) readiness.Sold {
	return func(ctx context.Context) (map[string]int, error) {
		sales, err := stores.db.Vouchers().Sales(ctx, time.Now())
		if err != nil {
			return nil, err
		}
		byFlow := make(map[string]int)
		for _, s := range sales {
			byFlow[flowOf(s.Flow, s.Lock)] += s.Vouchers
		}
		return byFlow, nil
	}
}

// probePrefix is the prefix of the keys that the checks write.
func (c *Config) probePrefix() string { return c.keyPrefix() + "probe:" }

// askNodes returns an error unless a majority of the independent Redis nodes takes writes.
func askNodes(ctx context.Context, nodes []red.Client, prefix string) error {
	var answers atomic.Int64
	var asking errgroup.Group
	for _, node := range nodes {
		asking.Go(func() error {
			err := rediswatch.WriteNode(ctx, node, prefix)
			if err == nil {
				answers.Add(1)
			}
			return err
		})
	}
	if err := asking.Wait(); int(answers.Load()) <= len(nodes)/2 {
		return fmt.Errorf("%d of %d nodes take writes: %w", answers.Load(), len(nodes), err)
	}
	return nil
}

// askZooKeeper returns an error unless a server says that it serves. It asks with the command srvr, the one that
// ZooKeeper permits by default. A server that permits none is alive; more is not known.
func askZooKeeper(ctx context.Context, addrs []string) error {
	errs := make([]error, len(addrs))
	var asking errgroup.Group
	for i, addr := range addrs {
		asking.Go(func() error {
			errs[i] = askZooKeeperServer(ctx, addr)
			return nil
		})
	}
	_ = asking.Wait()
	for _, err := range errs {
		if err == nil {
			return nil
		}
	}
	return errors.Join(errs...)
}

func askZooKeeperServer(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := conn.Write([]byte("srvr")); err != nil {
		return err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 4096))
	switch text := string(answer); {
	case strings.Contains(text, "Mode:") || strings.Contains(text, "not in the whitelist"):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", addr, err)
	default:
		return fmt.Errorf("%s does not serve: %.100q", addr, text)
	}
}
