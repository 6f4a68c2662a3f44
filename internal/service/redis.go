package service

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// How often a client retries a command that failed.
const (
	// With retries, a command whose first reply was lost can be carried out twice. Commands that must not be carried
	// out twice have an id of their own; see the lock mechanisms.
	retries = 2
	// The gate and the workers retry themselves: each knows when it may send a command again, and finds out the outcome
	// of the one before.
	noRetries = -1
)

// dialer connects to a server. nil is go-redis' own, over TCP.
type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// openRedis connects to a single node, a cluster, or the primary behind sentinels, depending on the configuration.
func openRedis(ctx context.Context, cfg Config, dial dialer, maxRetries int) (redis.UniversalClient, error) {
	encrypted, err := cfg.Redis.TLS.load(redisTLS)
	if err != nil {
		return nil, err
	}
	if err := checkMode(ctx, cfg, encrypted); err != nil {
		return nil, err
	}
	pool := cmp.Or(cfg.Redis.Pool, defaultRedisPool)
	client := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: cfg.RedisAddrs, MasterName: cfg.RedisMaster, IsClusterMode: cfg.Redis.Cluster, ClientName: "seckill", Dialer: dial, TLSConfig: encrypted,
		Username: cfg.Redis.Username, Password: cfg.RedisPassword, DB: cfg.RedisDB,
		SentinelUsername: cfg.Redis.SentinelUsername, SentinelPassword: cfg.Redis.SentinelPassword,
		// A command ends with its context. Without this only the socket timeouts apply, and a caller whose context ends
		// in 50 ms waits for seconds.
		ContextTimeoutEnabled: true,
		DialTimeout:           2 * time.Second,
		ReadTimeout:           2 * time.Second,
		WriteTimeout:          2 * time.Second,
		PoolTimeout:           2 * time.Second,
		MaxRetries:            maxRetries,
		// A server that is down should be noticed at once. Retries of the dial would multiply those above.
		DialerRetries: 1,
		PoolSize:      pool,
	})
	ping, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := client.Ping(ping).Err(); err != nil {
		_ = client.Close()
		return nil, fmt.Errorf("SECKILL_REDIS_ADDRS: no answer from %s: %w", strings.Join(cfg.RedisAddrs, ","), certificateHint(redisTLS, err))
	}
	return client, nil
}

// redisName says where the service's keys are, without secrets.
func (c *Config) redisName() string {
	name := strings.Join(c.RedisAddrs, ",")
	if c.RedisMaster != "" {
		name = c.RedisMaster + " of " + name
	}
	return name + "/" + strconv.Itoa(c.RedisDB) + " " + c.keyPrefix()
}

// warnReplicas logs a warning if orders have to wait for more replicas than Redis has. Until it has enough, every order
// is answered with unavailable.
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
			log.Warn("Redis has fewer replicas than orders wait for: no order is accepted until it has more",
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
		log.Warn("the number of Redis replicas is unknown", "variable", "SECKILL_REDIS_WAIT_REPLICAS", "error", err)
	}
}

// openNode returns a client for one of several independent nodes. It does not connect yet, since these locks work while
// a minority of the nodes is down.
func openNode(addr string, cfg Config, encrypted *tls.Config, dial dialer) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, Username: cfg.Redis.Username, Password: cfg.RedisPassword, ClientName: "seckill", Dialer: dial, TLSConfig: encrypted,
		ContextTimeoutEnabled: true,
		DialTimeout:           2 * time.Second,
		ReadTimeout:           2 * time.Second,
		WriteTimeout:          2 * time.Second,
		DialerRetries:         1,
		PoolSize:              cmp.Or(cfg.Redis.Pool, defaultRedisPool),
	})
}
