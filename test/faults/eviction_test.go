package faults

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/rediswatch"
	"seckill/internal/service"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// The service does not start on a Redis that may evict keys, unless the settings allow it.
func TestStartRefusesEviction(t *testing.T) {
	t.Parallel()
	db, redis := testkit.MariaDB(t), testkit.NewRedis(t, "--maxmemory-policy", "volatile-lru")
	env := []string{
		"SECKILL_MYSQL_DSN=" + db.DSN, "SECKILL_REDIS_ADDRS=" + testkit.NewRedis(t).Addr(), "SECKILL_LOCK_REDIS_ADDRS=" + testkit.Redis(t).Addr(),
		"SECKILL_JWT_SECRET=" + harness.Secret, "SECKILL_ADMIN_TOKEN=" + harness.AdminToken, "SECKILL_SHUTDOWN_DELAY=0s",
	}
	for _, setting := range []string{"SECKILL_REDIS_ADDRS", "SECKILL_LOCK_REDIS_ADDRS"} {
		t.Run(setting, func(t *testing.T) {
			env := append(env, setting+"="+redis.Addr())
			cfg, err := service.ParseConfig([]string{"-addr", "127.0.0.1:0"}, env, io.Discard)
			fail.NowIf(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), harness.Patience) // if it starts
			defer cancel()
			err = service.Run(ctx, cfg, io.Discard, io.Discard)
			fail.NowUnless(t, err, rediswatch.ErrEvicts)
			for _, said := range []string{setting + ": ", redis.Addr(), "volatile-lru", "noeviction", "SECKILL_ALLOW_EVICTION=1"} {
				if !strings.Contains(err.Error(), said) {
					t.Errorf("%q does not say %q", err, said)
				}
			}
			allowed := harness.StartInProcess(t, nil, append(env, "SECKILL_ALLOW_EVICTION=1"))
			fail.If(t, allowed.End(), "allowed")
		})
	}
}

const evictingNodes = `seckill_redis_evicting_nodes{servers="redis"}`

// evictAll fills the memory of a Redis that may evict, until it has evicted every key, and returns how many. Writes
// fail until the memory is given back.
func evictAll(t *testing.T, client *redis.Client) (evicted int) {
	t.Helper()
	configSet(t, client, "maxmemory", "1")
	testkit.Until(t, "Redis has evicted every key", func() bool { return client.DBSize(t.Context()).Val() == 0 })
	stats := client.InfoMap(t.Context(), "stats").Val()["Stats"]
	evicted, err := strconv.Atoi(stats["evicted_keys"])
	if err != nil || evicted == 0 {
		t.Fatalf("evicted_keys is %q", stats["evicted_keys"])
	}
	return evicted
}

// Redis begins to evict in the middle of a sale, is noticed, and then evicts every key: what was accepted is in the
// database by then, nothing that relies on Redis is accepted meanwhile, and the sale goes on once the setting is
// corrected. A weak lock goes on all the time.
func TestKeysAreEvicted(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t, "--appendonly", "yes")
	client := server.Client(t)
	p := harness.Start(t, harness.Stores{DB: testkit.MariaDB(t), Redis: []string{server.Addr()}})
	admission, locked := harness.OpenSale(t, 150, `{"flow":"admission","buckets":2}`, p), harness.OpenSale(t, 1000, `{}`, p)
	weak := harness.OpenSale(t, 1000, `{"lock":"naive","unique":false}`, p)
	codes, orders := admission.OrderAllUntilAnswered(100)
	if codes["accepted"] != 100 || locked.BuyUntilAnswered(0, 1, "first").Code != "created" {
		t.Fatal(codes)
	}
	admission.AtRest(0)
	configSet(t, client, "maxmemory-policy", "allkeys-lru")
	testkit.Until(t, "not ready", func() bool { return !harness.Ready(t.Context(), p.URL) })
	refuses := func(when string) {
		t.Helper()
		for name, sale := range map[string]*harness.Sale{"admission": admission, "locked": locked} {
			for user := range 20 {
				fail.Unequal(t, sale.Buy(0, 500+user, "").Code, "unavailable", "%s, %s: a buyer is told", name, when)
			}
		}
	}
	refuses("Redis may evict")
	fail.Unequal(t, weak.BuyUntilAnswered(0, 500, "weak").Code, "created", "a weak lock while Redis evicts")
	if _, body := harness.Call(t, http.MethodGet, p.URL+"/readyz", nil, ""); !strings.Contains(body, `"eviction":"failing"`) {
		t.Errorf("readiness says %s", body)
	}
	evicted := evictAll(t, client)
	refuses("Redis has evicted")
	configSet(t, client, "maxmemory", "0") // it would take orders again, and evict them the next time
	refuses("Redis has memory again")
	fail.Unequal(t, p.Metric(t, evictingNodes), 1, "servers that evict")
	configSet(t, client, "maxmemory-policy", "noeviction")
	harness.WaitReady(t, p)
	fail.Unequal(t, locked.BuyUntilAnswered(0, 1, "").Code, "already_ordered", "a second locked order")
	more, moreOrders := admission.OrderAllUnder("more-", 200)
	if more["accepted"] != 50 || more["already_ordered"] != 100 || more["sold_out"] != 50 {
		t.Errorf("after the correction buyers were told %v", more)
	}
	maps.Copy(orders, moreOrders)
	admission.CheckAllConfirmed(150, orders)
	t.Logf("%d keys were evicted", evicted)
}

// Eviction was allowed, and happens while orders are on their way. Orders may be lost, but the service has said so,
// stays ready, oversells nothing, gives nobody two, and keeps what the database has.
func TestKeysAreEvictedWhereThatIsAllowed(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t, "--appendonly", "yes", "--maxmemory-policy", "allkeys-lru")
	client := server.Client(t)
	s := harness.Stores{DB: testkit.MariaDB(t), Redis: []string{server.Addr()}}.With("SECKILL_ALLOW_EVICTION=1", "SECKILL_LOG_LEVEL=warn")
	p := harness.Start(t, s)
	p.WaitLine(t, "Redis may evict locks and accepted orders")
	harness.WaitReady(t, p)
	const stock = 300
	sale := harness.OpenSale(t, stock, harness.AdmissionPolicy, p)
	codes, persisted := sale.OrderAllUntilAnswered(100)
	fail.NowUnequal(t, codes["accepted"], 100, "%v", codes)
	sale.AtRest(0)
	release := sale.HoldRow(s.DB)
	_, onTheirWay := sale.OrderAllUnder("pending-", 200) // half of these users have an order
	fail.Unequal(t, len(onTheirWay), 100, "orders are on their way")
	evicted := evictAll(t, client)
	fail.Unequal(t, p.Metric(t, evictingNodes), 1, "servers that evict")
	configSet(t, client, "maxmemory", "0")
	release()
	harness.WaitReady(t, p)
	more, moreOrders := sale.OrderAllUnder("more-", 600)
	if more["accepted"]+more["already_ordered"]+more["sold_out"] != 600 || more["already_ordered"] < 100 {
		t.Errorf("after the eviction buyers were told %v", more)
	}
	maps.Copy(persisted, moreOrders)
	if lost := sale.CheckSoldOut(0, stock, persisted); lost > 0 {
		t.Errorf("%d orders were lost that were persisted, or accepted after the eviction", lost)
	}
	if a := sale.Audit(0); a.Oversold != 0 || a.DuplicateOrders != 0 {
		t.Errorf("the sale is wrong: %+v", a)
	}
	gone := 0
	for order, user := range onTheirWay {
		if strings.HasPrefix(sale.StatusOf(0, order, user), "404") {
			gone++
		}
	}
	t.Logf("%d keys were evicted, and %d of %d orders that were on their way are lost", evicted, gone, len(onTheirWay))
}

// The memory of Redis is full in the middle of a sale, under noeviction. Orders are answered with unavailable, accepted
// orders are persisted, and the sale continues afterwards.
func TestMemoryIsFull(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t, "--appendonly", "yes", "--maxmemory-policy", "noeviction")
	client := server.Client(t)
	p := harness.Start(t, harness.Stores{DB: testkit.MariaDB(t), Redis: []string{server.Addr()}})
	admission, locked := harness.OpenSale(t, 2000, `{"flow":"admission"}`, p), harness.OpenSale(t, 2000, `{}`, p)
	fill := sync.OnceFunc(func() { configSet(t, client, "maxmemory", "1") })
	codes, orders := admission.OrderAll(300, 1, func(answered int) { // while Redis is full, an answer takes 2 s
		if answered >= 240 {
			fill()
		}
	})
	if len(codes) != 2 || codes["unavailable"] == 0 || codes["accepted"] != len(orders) {
		t.Errorf("buyers were told %v", codes)
	}
	fail.Unequal(t, locked.Buy(0, 500, "").Code, "unavailable", "a locked order while Redis is full")
	// Redis stays full, and the orders reach the database all the same.
	waitForOrders(admission, len(orders))
	configSet(t, client, "maxmemory", "0")
	harness.WaitReady(t, p)
	testkit.Until(t, "orders are accepted again", func() bool { return admission.Buy(0, 5000, "").Code != "unavailable" })
	waitForOrders(admission, len(orders)+1)
	fail.Unequal(t, locked.BuyUntilAnswered(0, 500, "locked").Code, "created", "a locked order after the correction")
	testkit.Until(t, "the audit is balanced", func() bool { return admission.Audit(0).Balanced })
	admission.CheckBalanced(0, codes, orders)
}
