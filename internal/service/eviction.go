package service

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"seckill/internal/rediswatch"
)

// openGuard checks the Redis servers once. It returns an error if one may evict keys, unless that is allowed.
func openGuard(
	ctx context.Context, cfg Config, s *stores, registry prometheus.Registerer, log *slog.Logger,
) (*rediswatch.Guard, error) {
	if cfg.Embedded {
		return nil, nil
	}
	var nodes []redis.UniversalClient
	for _, node := range s.nodes {
		if client, ok := node.(redis.UniversalClient); ok {
			nodes = append(nodes, client)
		}
	}
	g := &rediswatch.Guard{
		Redis: rediswatch.New(rediswatch.Config{Clients: []redis.UniversalClient{s.redis}, Log: log.With("servers", "redis")}),
		Nodes: rediswatch.New(rediswatch.Config{Clients: nodes, Log: log.With("servers", "lock-redis")}),
		Allow: cfg.AllowEviction,
	}
	if err := g.Register(registry); err != nil {
		return nil, err
	}
	for _, check := range []struct {
		setting string
		watch   *rediswatch.Watch
	}{{"SECKILL_REDIS_ADDRS", g.Redis}, {"SECKILL_LOCK_REDIS_ADDRS", g.Nodes}} {
		if err := check.watch.Check(ctx); err != nil && !g.Allow {
			return nil, fmt.Errorf("%s: %w: set it there, or SECKILL_ALLOW_EVICTION=1 to go on although accepted orders can be lost", check.setting, err)
		}
	}
	return g, nil
}
