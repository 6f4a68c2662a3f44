package service

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// The metrics of the pools of connections to Redis. Each client has two pools: one for single commands, one for
// pipelines.
var (
	poolConnections = prometheus.NewDesc("seckill_redis_pool_connections",
		"Connections to Redis, by client, pool and state.", []string{"client", "pool", "state"}, nil)
	poolWaits = prometheus.NewDesc("seckill_redis_pool_waits_total",
		"Commands that had to wait for a connection to Redis.", []string{"client", "pool"}, nil)
	poolWaitSeconds = prometheus.NewDesc("seckill_redis_pool_wait_seconds_total",
		"How long commands waited for a connection to Redis, all together.", []string{"client", "pool"}, nil)
	poolTimeouts = prometheus.NewDesc("seckill_redis_pool_timeouts_total",
		"Commands that failed because no connection to Redis was free in time.", []string{"client", "pool"}, nil)
)

// pooled is a client of Redis.
type pooled interface{ PoolStats() *redis.PoolStats }

// redisPools collects what the pools of the service's clients are doing: "locks" is the client of locks, ids and
// readiness, "orders" that of the admission flow, "nodes" all of the independent nodes together.
type redisPools map[string][]pooled

func (s *stores) pools() redisPools {
	all := redisPools{"locks": {s.redis}, "orders": {s.orders}}
	for _, node := range s.nodes {
		if client, ok := node.(pooled); ok {
			all["nodes"] = append(all["nodes"], client)
		}
	}
	return all
}

// Describe implements prometheus.Collector.
func (redisPools) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{poolConnections, poolWaits, poolWaitSeconds, poolTimeouts} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (p redisPools) Collect(to chan<- prometheus.Metric) {
	for client, members := range p {
		var commands, pipelines redis.PoolStats
		for _, member := range members {
			stats := member.PoolStats()
			add(&commands, stats)
			if stats.PipelineStats != nil {
				add(&pipelines, (*redis.PoolStats)(stats.PipelineStats))
			}
		}
		send(to, &commands, client, "commands")
		send(to, &pipelines, client, "pipelines")
	}
}

func add(sum, one *redis.PoolStats) {
	sum.TotalConns += one.TotalConns
	sum.IdleConns += one.IdleConns
	sum.WaitCount += one.WaitCount
	sum.WaitDurationNs += one.WaitDurationNs
	sum.Timeouts += one.Timeouts
}

func send(to chan<- prometheus.Metric, s *redis.PoolStats, labels ...string) {
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	used := s.TotalConns - min(s.IdleConns, s.TotalConns) // the two are read one after the other
	to <- prometheus.MustNewConstMetric(poolConnections, gauge, float64(used), append(labels, "used")...)
	to <- prometheus.MustNewConstMetric(poolConnections, gauge, float64(s.IdleConns), append(labels, "idle")...)
	to <- prometheus.MustNewConstMetric(poolWaits, counter, float64(s.WaitCount), labels...)
	to <- prometheus.MustNewConstMetric(poolWaitSeconds, counter, time.Duration(s.WaitDurationNs).Seconds(), labels...)
	to <- prometheus.MustNewConstMetric(poolTimeouts, counter, float64(s.Timeouts), labels...)
}
