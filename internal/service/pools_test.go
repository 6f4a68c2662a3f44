package service

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// A connection that a command uses counts as used, then as idle, and a command that finds none counts as one that
// waited.
func TestRedisPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simulate.NewRedis(t)
		options := server.Options()
		options.PoolSize, options.PoolTimeout = 1, time.Minute
		client := redis.NewClient(options)
		defer client.Close()
		registry := prometheus.NewRegistry()
		registry.MustRegister(redisPools{"orders": {client}})
		expect := func(when string, used, idle, waits, seconds float64) {
			t.Helper()
			for name, want := range map[[2]string]float64{
				{"seckill_redis_pool_connections", "used"}: used, {"seckill_redis_pool_connections", "idle"}: idle,
				{"seckill_redis_pool_waits_total", ""}: waits, {"seckill_redis_pool_wait_seconds_total", ""}: seconds, {"seckill_redis_pool_timeouts_total", ""}: 0,
			} {
				fail.Unequal(t, poolMetric(t, registry, name[0], name[1]), want, "%s: %s %s", when, name[0], name[1])
			}
		}
		answered := make(chan error, 2)
		pop := func() { answered <- client.BLPop(t.Context(), 0, "list").Err() }
		go pop()
		synctest.Wait()
		expect("one command", 1, 0, 0, 0)
		go pop() // finds no connection
		simulate.Sleep(3 * time.Second)
		push := server.Client(t)
		for range 2 {
			fail.NowIf(t, push.RPush(t.Context(), "list", "1").Err())
			fail.NowIf(t, <-answered)
		}
		synctest.Wait()
		expect("both have ended", 0, 1, 1, 3)
	})
}

// poolMetric is a metric of the pool for single commands of the client "orders".
func poolMetric(t *testing.T, registry *prometheus.Registry, name, state string) float64 {
	t.Helper()
	families, err := registry.Gather()
	fail.NowIf(t, err)
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
