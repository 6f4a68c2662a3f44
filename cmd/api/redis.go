package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// How often a client repeats a command that failed.
const (
	// A repetition by the client can carry out a command twice whose first reply was
	// lost. Whoever sends a command that must not be repeated blindly carries an id of
	// its own; see the mechanisms.
	repeating = 2
	// The gate and those who persist count their repetitions themselves: each knows
	// when it may act again, and finds out what became of the call before.
	notRepeating = -1
)

// openRedis connects to a single node, a cluster, or the primary that sentinels
// name, whichever the addresses say.
func openRedis(ctx context.Context, addrs []string, master, password string, retries int) (redis.UniversalClient, error) {
	client := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: addrs, MasterName: master, Password: password, ClientName: "seckill",
		// A command ends with its context. Without this only the socket timeouts
		// count, and a caller with 50 ms left waits for seconds.
		ContextTimeoutEnabled: true,
		DialTimeout:           2 * time.Second,
		ReadTimeout:           2 * time.Second,
		WriteTimeout:          2 * time.Second,
		PoolTimeout:           2 * time.Second,
		MaxRetries:            retries,
		// A server that is down is to be noticed now; each retry here would be
		// multiplied by those above.
		DialerRetries: 1,
		PoolSize:      64,
		// Pipelines have a pool of their own, of 10 by default, which gives up for a
		// second when dialling failed as often as it has places.
		PipelinePoolSize: 64,
	})
	ping, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := client.Ping(ping).Err(); err != nil {
		_ = client.Close()
		return nil, fmt.Errorf("SECKILL_REDIS_ADDRS: no answer from %s: %w", strings.Join(addrs, ","), err)
	}
	return client, nil
}

// warnReplicas says where orders are to wait for more replicas than there are: until
// they come, every buyer is told that the service is unavailable.
func warnReplicas(ctx context.Context, client redis.UniversalClient, wanted int, log *slog.Logger) {
	if wanted == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ask := func(ctx context.Context, node *redis.Client) error {
		info := node.InfoMap(ctx, "replication")
		if err := info.Err(); err != nil {
			return fmt.Errorf("%s: %w", node.Options().Addr, err)
		}
		if has, err := strconv.Atoi(info.Item("Replication", "connected_slaves")); err != nil || has < wanted {
			log.Warn("Redis has fewer replicas than orders wait for: none is accepted until it has more",
				"variable", "SECKILL_REDIS_WAIT_REPLICAS", "wanted", wanted, "connected", has, "node", node.Options().Addr)
		}
		return nil
	}
	var err error
	switch c := client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, ask)
	case *redis.Client:
		err = ask(ctx, c)
	}
	if err != nil {
		log.Warn("it is not known how many replicas Redis has", "variable", "SECKILL_REDIS_WAIT_REPLICAS", "error", err)
	}
}

// openNode makes a client of one of several independent nodes. It does not connect
// yet: a node that is down is what these locks are made for.
func openNode(addr, password string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, Password: password, ClientName: "seckill",
		ContextTimeoutEnabled: true,
		DialTimeout:           2 * time.Second,
		ReadTimeout:           2 * time.Second,
		WriteTimeout:          2 * time.Second,
		DialerRetries:         1,
		PoolSize:              64,
	})
}
