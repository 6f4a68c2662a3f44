package service

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
)

// A connection that a command uses counts as used, then as idle, and a command that finds none counts as one that waited.
func TestRedisPools(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 1, PoolTimeout: patience})
	t.Cleanup(func() { _ = client.Close() })
	registry := prometheus.NewRegistry()
	registry.MustRegister(redisPools{"orders": {client}})
	value := func(name, state string) float64 {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				labels := map[string]string{}
				for _, l := range metric.GetLabel() {
					labels[l.GetName()] = l.GetValue()
				}
				if family.GetName() == name && labels["pool"] == "commands" && labels["client"] == "orders" && labels["state"] == state {
					return metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
				}
			}
		}
		t.Fatalf("no %s", name)
		return 0
	}
	const connections, waits = "seckill_redis_pool_connections", "seckill_redis_pool_waits_total"
	answered := make(chan error, 2)
	pop := func() { answered <- client.BLPop(t.Context(), 0, "list").Err() }
	go pop()
	testkit.Until(t, "a connection is used", func() bool { return value(connections, "used") == 1 })
	go pop() // finds none
	testkit.Until(t, "two commands are begun", func() bool { return client.PoolStats().PendingRequests == 1 || value(waits, "") == 1 })
	push := server.Client(t)
	for range 2 {
		if err := push.RPush(t.Context(), "list", "1").Err(); err != nil {
			t.Fatal(err)
		}
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
	}
	testkit.Until(t, "the connection is idle", func() bool { return value(connections, "idle") == 1 && value(connections, "used") == 0 })
	if value(waits, "") != 1 || value("seckill_redis_pool_wait_seconds_total", "") <= 0 || value("seckill_redis_pool_timeouts_total", "") != 0 {
		t.Errorf("%v waited", value(waits, ""))
	}
}
