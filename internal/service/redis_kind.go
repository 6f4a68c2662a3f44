package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisTLS begins the names of the settings for TLS to Redis.
const redisTLS = "SECKILL_REDIS_TLS"

// askTimeout is how long a server may take to say what it is. A server that does not say is taken for what the settings
// say.
const askTimeout = 2 * time.Second

// checkMode compares what the first address that answers is, with what the settings take it for.
func checkMode(ctx context.Context, cfg Config, encrypted *tls.Config) error {
	if cfg.Embedded {
		return nil
	}
	asked := cfg
	if cfg.RedisMaster != "" {
		asked.Redis.Username, asked.RedisPassword = cfg.Redis.SentinelUsername, cfg.Redis.SentinelPassword
	}
	for _, addr := range cfg.RedisAddrs {
		client := openNode(addr, asked, encrypted, nil)
		mode := infoOf(ctx, client)["redis_mode"]
		_ = client.Close()
		if mode == "" {
			continue
		}
		if why := misfit(cfg, mode); why != "" {
			return fmt.Errorf("SECKILL_REDIS_ADDRS: %s is %s", addr, why)
		}
		return nil
	}
	return nil
}

// misfit says why a server in a mode is not what the settings say, and what to do; "" if it is.
func misfit(cfg Config, mode string) string {
	switch cluster := cfg.Redis.Cluster || len(cfg.RedisAddrs) > 1; {
	case cfg.RedisMaster != "" && mode != "sentinel":
		return "no sentinel: with SECKILL_REDIS_MASTER, name the sentinels, as a rule at port 26379, or leave SECKILL_REDIS_MASTER out"
	case cfg.RedisMaster == "" && mode == "sentinel":
		return "a sentinel: set SECKILL_REDIS_MASTER to the name of the primary that it watches"
	case cfg.RedisMaster == "" && !cluster && mode == "cluster":
		return "a node of a cluster, which has a part of the keys only: set SECKILL_REDIS_CLUSTER=1, or name several of its nodes"
	case cfg.RedisMaster == "" && cluster && mode == "standalone":
		return "no node of a cluster: give one address without SECKILL_REDIS_CLUSTER; independent nodes for locks belong in SECKILL_LOCK_REDIS_ADDRS"
	}
	return ""
}

// checkIndependent returns an error if two of the lock nodes that answer are the same server: its failure would take
// both, and a majority of names is then no majority of servers.
func checkIndependent(ctx context.Context, nodes []*redis.Client) error {
	ids := make([]string, len(nodes))
	var asked sync.WaitGroup
	for i, node := range nodes {
		asked.Go(func() { ids[i] = infoOf(ctx, node)["run_id"] })
	}
	asked.Wait()
	names := map[string][]string{}
	for i, id := range ids {
		if id != "" {
			names[id] = append(names[id], nodes[i].Options().Addr)
		}
	}
	var same []error
	for _, id := range ids { // in the order of the setting
		if addrs := names[id]; len(addrs) > 1 {
			same = append(same, fmt.Errorf("SECKILL_LOCK_REDIS_ADDRS: %s are one server, run_id %s: independent nodes are different servers",
				strings.Join(addrs, " and "), id))
		}
		delete(names, id)
	}
	return errors.Join(same...)
}

// infoOf returns what a server says of itself; nothing if it does not.
func infoOf(ctx context.Context, node *redis.Client) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return node.InfoMap(ctx, "server").Val()["Server"]
}
