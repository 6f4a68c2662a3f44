package faults

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/rediswatch"
	"seckill/internal/service"
	"seckill/internal/testkit"
	"seckill/test/harness"
)

func configSet(t *testing.T, client *redis.Client, setting, value string) {
	t.Helper()
	if err := client.ConfigSet(t.Context(), setting, value).Err(); err != nil {
		t.Fatal(err)
	}
}

// The service does not start on a Redis that may evict keys, unless the settings allow it.
func TestStartRefusesEviction(t *testing.T) {
	db, redis := testkit.MariaDB(t), testkit.NewRedis(t, "--maxmemory-policy", "volatile-lru")
	env := []string{
		"SECKILL_MYSQL_DSN=" + db.DSN, "SECKILL_REDIS_ADDRS=" + testkit.Redis(t).Addr(), "SECKILL_LOCK_REDIS_ADDRS=" + testkit.Redis(t).Addr(),
		"SECKILL_JWT_SECRET=" + harness.Secret, "SECKILL_ADMIN_TOKEN=" + harness.AdminToken, "SECKILL_SHUTDOWN_DELAY=0s",
	}
	for _, setting := range []string{"SECKILL_REDIS_ADDRS", "SECKILL_LOCK_REDIS_ADDRS"} {
		t.Run(setting, func(t *testing.T) {
			env := append(env, setting+"="+redis.Addr())
			cfg, err := service.ParseConfig([]string{"-addr", "127.0.0.1:0"}, env, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			err = service.Run(t.Context(), cfg, io.Discard, io.Discard)
			if !errors.Is(err, rediswatch.ErrEvicts) {
				t.Fatalf("err = %v", err)
			}
			for _, said := range []string{setting + ": ", redis.Addr(), "volatile-lru", "noeviction", "SECKILL_ALLOW_EVICTION=1"} {
				if !strings.Contains(err.Error(), said) {
					t.Errorf("%q does not say %q", err, said)
				}
			}
			allowed := harness.StartInProcess(t, nil, append(env, "SECKILL_ALLOW_EVICTION=1"))
			if err := allowed.End(); err != nil {
				t.Errorf("allowed: %v", err)
			}
		})
	}
}

// Redis begins to evict in the middle of a sale: orders that rely on it are refused until its setting is
// corrected, and no accepted order is lost.
func TestEvictionWhileRunning(t *testing.T) {
	server := testkit.NewRedis(t, "--appendonly", "yes")
	redis := server.Client(t)
	s := harness.Stores{DB: testkit.MariaDB(t), Redis: []string{server.Addr()}}
	p := harness.Start(t, s)
	admission, locked := harness.OpenSale(t, 1000, `{"flow":"admission"}`, p), harness.OpenSale(t, 1000, `{}`, p)
	weak := harness.OpenSale(t, 1000, `{"lock":"naive","unique":false}`, p)
	codes, orders := admission.OrderAllUntilAnswered(100)
	if codes["accepted"] != 100 {
		t.Fatal(codes)
	}
	configSet(t, redis, "maxmemory-policy", "allkeys-lru")
	began := time.Now()
	testkit.Until(t, "not ready", func() bool { return !harness.Ready(t.Context(), p.URL) })
	t.Logf("not ready after %v", time.Since(began).Round(100*time.Millisecond))
	for name, sale := range map[string]*harness.Sale{"admission": admission, "locked": locked} {
		if got := sale.Buy(0, 500, ""); got.Code != "unavailable" {
			t.Errorf("%s while Redis evicts: %+v", name, got)
		}
	}
	if got := weak.BuyUntilAnswered(0, 500, "weak"); got.Code != "created" {
		t.Errorf("a weak lock while Redis evicts: %+v", got)
	}
	if _, body := harness.Call(t, http.MethodGet, p.URL+"/readyz", nil, ""); !strings.Contains(body, `"eviction":"failing"`) {
		t.Errorf("readiness says %s", body)
	}
	if _, body := harness.Call(t, http.MethodGet, p.URL+"/metrics", nil, ""); !strings.Contains(body, `seckill_redis_evicting_nodes{servers="redis"} 1`) {
		t.Error("the metrics do not count the server")
	}
	configSet(t, redis, "maxmemory-policy", "noeviction")
	harness.WaitReady(t, p)
	more, moreOrders := admission.OrderAllUnder("more-", 200) // half of these users have an order
	maps.Copy(orders, moreOrders)
	if more["accepted"] != 100 || locked.BuyUntilAnswered(0, 500, "locked").Code != "created" {
		t.Errorf("after the correction buyers were told %v", more)
	}
	admission.AtRest(0) // an order counts twice until its entry is acknowledged
	admission.CheckBalanced(0, more, orders)
}

// Redis begins to evict while the service stops and is still serving. Orders that rely on it are refused then, too.
func TestEvictionDuringTheShutdownDelay(t *testing.T) {
	server := testkit.NewRedis(t, "--appendonly", "yes")
	redis := server.Client(t)
	s := harness.Stores{DB: testkit.MariaDB(t), Redis: []string{server.Addr()}}
	p := harness.Start(t, s.With("SECKILL_SHUTDOWN_DELAY=1m"))
	sale := harness.OpenSale(t, 1000, `{"flow":"admission"}`, p)
	p.Terminate()
	testkit.Until(t, "not ready", func() bool { return !harness.Ready(t.Context(), p.URL) })
	user := 1
	if got := sale.BuyUntilAnswered(0, user, "first").Code; got != "accepted" {
		t.Errorf("during the delay: %s", got)
	}
	configSet(t, redis, "maxmemory-policy", "allkeys-lru")
	testkit.Until(t, "orders are refused", func() bool { user++; return sale.Buy(0, user, "").Code == "unavailable" })
	configSet(t, redis, "maxmemory-policy", "noeviction")
	testkit.Until(t, "orders are accepted", func() bool { user++; return sale.Buy(0, user, "").Code == "accepted" })
	p.Terminate() // ends the delay
	select {
	case <-p.Done():
	case <-time.After(20 * time.Second):
		t.Error("the second signal did not end the delay")
	}
}

// waitForOrders waits until the database has that many orders.
func waitForOrders(s *harness.Sale, orders int) {
	s.T.Helper()
	testkit.Until(s.T, "all orders are in the database", func() bool { return s.Audit(0).Orders >= orders })
}

// The memory of Redis is full in the middle of a sale, under noeviction. Orders are answered with unavailable,
// accepted orders are persisted, and the sale continues afterwards.
func TestMemoryIsFull(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t, "--appendonly", "yes", "--maxmemory-policy", "noeviction")
	redis := server.Client(t)
	s := harness.Stores{DB: testkit.MariaDB(t), Redis: []string{server.Addr()}}
	p := harness.Start(t, s)
	admission, locked := harness.OpenSale(t, 2000, `{"flow":"admission"}`, p), harness.OpenSale(t, 2000, `{}`, p)
	full, isFull := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(isFull) })
	defer goOn()
	var codes, orders map[string]int
	done := make(chan struct{})
	go func() {
		defer close(done)
		once := sync.OnceFunc(func() { close(full) })
		codes, orders = admission.OrderAll(640, 1, func(answered int) { // while Redis is full, an answer takes 2 s
			if answered >= 500 {
				once()
				<-isFull
			}
		})
	}()
	<-full
	configSet(t, redis, "maxmemory", "1")
	goOn()
	for range 20 {
		if got := locked.Buy(0, 500, "").Code; got != "unavailable" {
			t.Errorf("a locked order while Redis is full: %s", got)
		}
	}
	<-done
	if len(codes) != 2 || codes["unavailable"] == 0 || codes["accepted"] != len(orders) {
		t.Errorf("buyers were told %v", codes)
	}
	// Redis stays full, and the orders reach the database all the same.
	waitForOrders(admission, len(orders))
	configSet(t, redis, "maxmemory", "0")
	harness.WaitReady(t, p)
	testkit.Until(t, "orders are accepted again", func() bool { return admission.Buy(0, 5000, "").Code != "unavailable" })
	waitForOrders(admission, len(orders)+1)
	if got := locked.BuyUntilAnswered(0, 500, "locked").Code; got != "created" {
		t.Errorf("a locked order after the correction: %s", got)
	}
	testkit.Until(t, "the audit is balanced", func() bool { return admission.Audit(0).Balanced })
	admission.CheckBalanced(0, codes, orders)
}
