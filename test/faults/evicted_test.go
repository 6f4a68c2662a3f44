package faults

import (
	"maps"
	"net/http"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
	"seckill/test/harness"
)

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
// database by then, nothing is accepted meanwhile, and the sale goes on once the setting is corrected.
func TestKeysAreEvicted(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t, "--appendonly", "yes")
	client := server.Client(t)
	s := harness.Stores{DB: testkit.MariaDB(t), Redis: []string{server.Addr()}}
	p := harness.Start(t, s)
	admission, locked := harness.OpenSale(t, 150, `{"flow":"admission","buckets":2}`, p), harness.OpenSale(t, 1000, `{}`, p)
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
				if got := sale.Buy(0, 500+user, ""); got.Code != "unavailable" {
					t.Errorf("%s, %s: a buyer is told %+v", name, when, got)
				}
			}
		}
	}
	refuses("Redis may evict")
	evicted := evictAll(t, client)
	refuses("Redis has evicted")
	configSet(t, client, "maxmemory", "0") // it would take orders again, and evict them the next time
	refuses("Redis has memory again")
	if n := counter(t, p, `seckill_redis_evicting_nodes{servers="redis"}`); n != 1 {
		t.Errorf("the metric counts %v servers that evict", n)
	}
	configSet(t, client, "maxmemory-policy", "noeviction")
	harness.WaitReady(t, p)
	if got := locked.BuyUntilAnswered(0, 1, "").Code; got != "already_ordered" {
		t.Errorf("a second locked order: %s", got)
	}
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
	if codes["accepted"] != 100 {
		t.Fatal(codes)
	}
	sale.AtRest(0)
	release := sale.HoldRow(s.DB)
	_, onTheirWay := sale.OrderAllUnder("pending-", 200) // half of these users have an order
	if len(onTheirWay) != 100 {
		t.Errorf("%d orders are on their way", len(onTheirWay))
	}
	evicted := evictAll(t, client)
	if n := counter(t, p, `seckill_redis_evicting_nodes{servers="redis"}`); n != 1 {
		t.Errorf("the metric counts %v servers that evict", n)
	}
	configSet(t, client, "maxmemory", "0")
	release()
	harness.WaitReady(t, p)
	more, moreOrders := sale.OrderAllUnder("more-", 600)
	if more["accepted"]+more["already_ordered"]+more["sold_out"] != 600 || more["already_ordered"] < 100 {
		t.Errorf("after the eviction buyers were told %v", more)
	}
	a := sale.AtRest(0)
	if a.Orders != stock || a.Stock != 0 || !a.Balanced || a.Oversold != 0 || a.DuplicateOrders != 0 {
		t.Errorf("the sale is wrong: %+v", a)
	}
	maps.Copy(persisted, moreOrders)
	lost := sale.CheckSoldOut(0, stock, persisted)
	if lost > 0 {
		t.Errorf("%d orders were lost that were persisted, or accepted after the eviction", lost)
	}
	gone := 0
	for order, user := range onTheirWay {
		if status, _ := harness.Call(t, http.MethodGet, p.URL+"/api/v1/orders/"+order, http.Header{"X-User-Id": {strconv.Itoa(user)}}, ""); status == http.StatusNotFound {
			gone++
		}
	}
	t.Logf("%d keys were evicted, and %d of %d orders that were on their way are lost", evicted, gone, len(onTheirWay))
}
