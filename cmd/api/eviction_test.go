package main

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
	"seckill/internal/testkit"
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
		"SECKILL_JWT_SECRET=" + secret, "SECKILL_ADMIN_TOKEN=" + token, "SECKILL_SHUTDOWN_DELAY=0s",
	}
	for _, setting := range []string{"SECKILL_REDIS_ADDRS", "SECKILL_LOCK_REDIS_ADDRS"} {
		t.Run(setting, func(t *testing.T) {
			env := append(env, setting+"="+redis.Addr())
			cfg, err := parseConfig([]string{"-addr", "127.0.0.1:0"}, env, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			err = run(t.Context(), cfg, io.Discard, io.Discard)
			if !errors.Is(err, rediswatch.ErrEvicts) {
				t.Fatalf("err = %v", err)
			}
			for _, said := range []string{setting + ": ", redis.Addr(), "volatile-lru", "noeviction", "SECKILL_ALLOW_EVICTION=1"} {
				if !strings.Contains(err.Error(), said) {
					t.Errorf("%q does not say %q", err, said)
				}
			}
			allowed := start(t, nil, append(env, "SECKILL_ALLOW_EVICTION=1"))
			if err := allowed.end(); err != nil {
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
	s := servers{db: testkit.MariaDB(t), redis: []string{server.Addr()}}
	p := startProcess(t, s)
	admission, locked := openSale(t, 1000, `{"flow":"admission"}`, p), openSale(t, 1000, `{}`, p)
	weak := openSale(t, 1000, `{"lock":"naive","unique":false}`, p)
	codes, orders := admission.orderAllUntilAnswered(100)
	if codes["accepted"] != 100 {
		t.Fatal(codes)
	}
	configSet(t, redis, "maxmemory-policy", "allkeys-lru")
	began := time.Now()
	testkit.Until(t, "not ready", func() bool { return !asksReady(t.Context(), p.url) })
	t.Logf("not ready after %v", time.Since(began).Round(100*time.Millisecond))
	for name, sale := range map[string]*testSale{"admission": admission, "locked": locked} {
		if got := sale.buy(0, 500, ""); got.code != "unavailable" {
			t.Errorf("%s while Redis evicts: %+v", name, got)
		}
	}
	if got := weak.buyUntilAnswered(0, 500, "weak"); got.code != "created" {
		t.Errorf("a weak lock while Redis evicts: %+v", got)
	}
	if _, body := call(t, http.MethodGet, p.url+"/readyz", nil, ""); !strings.Contains(body, `"eviction":"failing"`) {
		t.Errorf("readiness says %s", body)
	}
	if _, body := call(t, http.MethodGet, p.url+"/metrics", nil, ""); !strings.Contains(body, `seckill_redis_evicting_nodes{servers="redis"} 1`) {
		t.Error("the metrics do not count the server")
	}
	configSet(t, redis, "maxmemory-policy", "noeviction")
	waitReady(t, p)
	more, moreOrders := admission.orderAllUnder("more-", 200) // half of these users have an order
	maps.Copy(orders, moreOrders)
	if more["accepted"] != 100 || locked.buyUntilAnswered(0, 500, "locked").code != "created" {
		t.Errorf("after the correction buyers were told %v", more)
	}
	admission.atRest(0) // an order counts twice until its entry is acknowledged
	admission.checkBalanced(0, more, orders)
}

// Redis begins to evict while the service stops and is still serving. Orders that rely on it are refused then, too.
func TestEvictionDuringTheShutdownDelay(t *testing.T) {
	server := testkit.NewRedis(t, "--appendonly", "yes")
	redis := server.Client(t)
	s := servers{db: testkit.MariaDB(t), redis: []string{server.Addr()}}
	p := startProcess(t, s.with("SECKILL_SHUTDOWN_DELAY=1m"))
	sale := openSale(t, 1000, `{"flow":"admission"}`, p)
	p.Terminate()
	testkit.Until(t, "not ready", func() bool { return !asksReady(t.Context(), p.url) })
	user := 1
	if got := sale.buyUntilAnswered(0, user, "first").code; got != "accepted" {
		t.Errorf("during the delay: %s", got)
	}
	configSet(t, redis, "maxmemory-policy", "allkeys-lru")
	testkit.Until(t, "orders are refused", func() bool { user++; return sale.buy(0, user, "").code == "unavailable" })
	configSet(t, redis, "maxmemory-policy", "noeviction")
	testkit.Until(t, "orders are accepted", func() bool { user++; return sale.buy(0, user, "").code == "accepted" })
	p.Terminate() // ends the delay
	select {
	case <-p.Done():
	case <-time.After(20 * time.Second):
		t.Error("the second signal did not end the delay")
	}
}

// waitForOrders waits until the database has that many orders.
func (s *testSale) waitForOrders(orders int) {
	s.t.Helper()
	testkit.Until(s.t, "all orders are in the database", func() bool { return s.audit(0).Orders >= orders })
}

// The memory of Redis is full in the middle of a sale, under noeviction. Orders are answered with unavailable,
// accepted orders are persisted, and the sale continues afterwards.
func TestMemoryIsFull(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t, "--appendonly", "yes", "--maxmemory-policy", "noeviction")
	redis := server.Client(t)
	s := servers{db: testkit.MariaDB(t), redis: []string{server.Addr()}}
	p := startProcess(t, s)
	admission, locked := openSale(t, 2000, `{"flow":"admission"}`, p), openSale(t, 2000, `{}`, p)
	full, isFull := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(isFull) })
	defer goOn()
	var codes, orders map[string]int
	done := make(chan struct{})
	go func() {
		defer close(done)
		once := sync.OnceFunc(func() { close(full) })
		codes, orders = admission.orderAll(640, 1, func(answered int) { // while Redis is full, an answer takes 2 s
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
		if got := locked.buy(0, 500, "").code; got != "unavailable" {
			t.Errorf("a locked order while Redis is full: %s", got)
		}
	}
	<-done
	if len(codes) != 2 || codes["unavailable"] == 0 || codes["accepted"] != len(orders) {
		t.Errorf("buyers were told %v", codes)
	}
	// Redis stays full, and the orders reach the database all the same.
	admission.waitForOrders(len(orders))
	configSet(t, redis, "maxmemory", "0")
	waitReady(t, p)
	testkit.Until(t, "orders are accepted again", func() bool { return admission.buy(0, 5000, "").code != "unavailable" })
	admission.waitForOrders(len(orders) + 1)
	if got := locked.buyUntilAnswered(0, 500, "locked").code; got != "created" {
		t.Errorf("a locked order after the correction: %s", got)
	}
	testkit.Until(t, "the audit is balanced", func() bool { return admission.audit(0).Balanced })
	admission.checkBalanced(0, codes, orders)
}
