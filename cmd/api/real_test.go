package main

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/auth"
	"seckill/internal/testkit"
)

// sharedServers returns a new database on the test binary's MariaDB and a Redis for this test alone: the service
// uses a whole Redis, and tests run in parallel.
func sharedServers(t *testing.T) servers {
	t.Helper()
	return servers{db: testkit.MariaDB(t), redis: []string{testkit.NewRedis(t).Addr()}}
}

func TestProductionMode(t *testing.T) {
	t.Parallel()
	for _, engine := range []struct {
		name string
		open func(testkit.TB) testkit.Database
	}{{"mariadb", testkit.MariaDB}, {"mysql", testkit.MySQL}} {
		t.Run(engine.name, func(t *testing.T) {
			t.Parallel()
			s := servers{db: engine.open(t), redis: []string{testkit.NewRedis(t).Addr()}}
			p := startProcess(t, s.with("SECKILL_LAB=0"))
			tokens, err := auth.NewTokens([]byte(secret), nil)
			if err != nil {
				t.Fatal(err)
			}
			jwt, err := tokens.Mint(42, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			admin := http.Header{"Authorization": {"Bearer " + token}}
			buyer := http.Header{"Authorization": {"Bearer " + jwt}}
			voucher := func(policy string) string {
				return fmt.Sprintf(`{"title":"t","stock":2,"begin_at":"2020-01-01T00:00:00Z","end_at":"2120-01-01T00:00:00Z","policy":%s}`, policy)
			}
			expect := func(wantStatus int, wantBody, method, path string, who http.Header, body string) string {
				t.Helper()
				status, got := call(t, method, p.url+path, who, body)
				if status != wantStatus || !strings.Contains(got, wantBody) {
					t.Errorf("%s %s: %d %s, want %d with %s", method, path, status, got, wantStatus, wantBody)
				}
				return got
			}
			expect(401, `"unauthenticated"`, "POST", "/api/v1/vouchers", nil, voucher(`{}`))
			expect(403, `"forbidden"`, "POST", "/api/v1/vouchers", buyer, voucher(`{}`))
			for _, weak := range []string{`{"lock":"naive"}`, `{"stock":"unguarded"}`, `{"unique":false}`, `{"placement":"inside-tx"}`,
				`{"faults":[{"point":"critical-section","pause_ms":5}]}`} {
				expect(403, `"lab_only"`, "POST", "/api/v1/vouchers", admin, voucher(weak))
			}
			expect(400, `policy.scope`, "POST", "/api/v1/vouchers", admin, voucher(`{"flow":"admission","scope":"voucher"}`))
			created := expect(201, `"id":"`, "POST", "/api/v1/vouchers", admin, voucher(`{}`))
			_, id, _ := strings.Cut(created, `"id":"`)
			id, _, _ = strings.Cut(id, `"`)
			orders := "/api/v1/vouchers/" + id + "/orders"
			expect(401, `"unauthenticated"`, "POST", orders, http.Header{"X-User-Id": {"42"}}, "")
			expect(201, `"confirmed"`, "POST", orders, buyer, "")
			expect(409, `"already_ordered"`, "POST", orders, buyer, "")
			expect(403, `"forbidden"`, "GET", "/api/v1/vouchers/"+id+"/audit", buyer, "")
			expect(200, `"balanced":true`, "GET", "/api/v1/vouchers/"+id+"/audit", admin, "")
			expect(403, `"lab_only"`, "POST", "/api/v1/tokens", nil, `{"user_id":"1"}`)

			// A weak voucher that a server in lab mode put on sale in the same database.
			weak := openSale(t, 5, `{"lock":"none","stock":"unguarded"}`, startProcess(t, s))
			expect(403, `"lab_only"`, "POST", "/api/v1/vouchers/"+weak.voucher+"/orders", buyer, "")

			if err := p.Stop(); err != nil {
				t.Errorf("SIGTERM: %v", err)
			}
			for _, hidden := range []string{secret, token, jwt} {
				if strings.Contains(p.Output(), hidden) {
					t.Errorf("the output shows a secret:\n%s", p.Output())
				}
			}
		})
	}
}

// Two processes sell one voucher with an unguarded stock: the weak locks oversell, the strong ones do not.
func TestLocksOverTwoProcesses(t *testing.T) {
	t.Parallel()
	s := sharedServers(t)
	a, b := startProcess(t, s), startProcess(t, s)
	const users, stock = 300, 20
	const unguarded = `{"scope":"voucher","stock":"unguarded","lock_wait_ms":20000,"lock":%q,"lock_ttl_ms":%d,
		"faults":[{"point":"critical-section","pause_ms":%d,"probability":%v}]}`
	for _, tc := range []struct {
		lock           string
		ttlMS, pauseMS int
		probability    float64
		oversells      bool
	}{
		{"none", 0, 5, 1, true},
		{"local", 0, 5, 1, true},
		{"naive", 20, 100, 0.5, true}, // that none of the first 20 pauses has a probability of 1 in a million
		{"lua", 0, 1, 1, false},
		{"reentrant", 0, 100, 0.2, false},
	} {
		t.Run(tc.lock, func(t *testing.T) {
			sale := openSale(t, stock, fmt.Sprintf(unguarded, tc.lock, tc.ttlMS, tc.pauseMS, tc.probability), a, b)
			codes, orders := sale.orderAll(users, 1, nil)
			got := sale.audit(0)
			t.Logf("%v; %+v", codes, got)
			if tc.oversells {
				if got.Oversold == 0 {
					t.Errorf("%s did not oversell: %+v", tc.lock, got)
				}
				return
			}
			if got.Orders != stock || got.Oversold != 0 || !got.Balanced || len(orders) != stock {
				t.Errorf("%s sold %d of %d: %+v", tc.lock, got.Orders, stock, got)
			}
		})
	}
	for lock, duplicates := range map[string]bool{"none": true, "reentrant": false} {
		t.Run("one per user, "+lock, func(t *testing.T) {
			sale := openSale(t, 1000, fmt.Sprintf(`{"lock":%q,"unique":false,"faults":[{"point":"critical-section","pause_ms":10}]}`, lock), a, b)
			sale.orderAll(40, 4, nil)
			if got := sale.audit(1); got.DuplicateOrders > 0 != duplicates {
				t.Errorf("%s: %+v", lock, got)
			}
		})
	}
}

// A sale under the default policy during which a process or a server dies.
func TestSaleSurvives(t *testing.T) {
	t.Parallel()
	const users, stock = 600, 400
	for _, tc := range []struct {
		name string
		back bool // the victim comes back
		kill func(t *testing.T, mariadb *testkit.SQLServer, redis *testkit.RedisServer, a process)
	}{
		{"SIGKILL of an API process", false, func(_ *testing.T, _ *testkit.SQLServer, _ *testkit.RedisServer, a process) { a.Kill() }},
		{"SIGKILL of Redis", true, func(_ *testing.T, _ *testkit.SQLServer, redis *testkit.RedisServer, _ process) {
			redis.Kill()
			redis.Restart()
		}},
		{"SIGKILL of MariaDB", true, func(_ *testing.T, mariadb *testkit.SQLServer, _ *testkit.RedisServer, _ process) {
			mariadb.Kill()
			mariadb.Restart()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			mariadb, redis := testkit.NewMariaDB(t, "--innodb-flush-log-at-trx-commit=1"), testkit.NewRedis(t)
			s := servers{db: mariadb.Database(t), redis: []string{redis.Addr()}}
			a, b := startProcess(t, s), startProcess(t, s)
			sale := openSale(t, stock, `{}`, a, b)
			// The test's own goroutine does the killing, once a third was answered.
			now := make(chan struct{})
			once := sync.OnceFunc(func() { close(now) })
			var codes, orders map[string]int
			var load sync.WaitGroup
			load.Go(func() {
				codes, orders = sale.orderAll(users, 1, func(answered int) {
					if answered >= users/3 {
						once()
					}
				})
			})
			<-now
			tc.kill(t, mariadb, redis, a)
			load.Wait()
			sale.checkBalanced(1, codes, orders)
			if codes["internal"] > 0 || codes[""] > 0 {
				t.Errorf("answers without a reason: %v", codes)
			}
			if !tc.back {
				return
			}
			// Afterwards the sale goes on until all is sold.
			waitReady(t, a, b)
			more, moreOrders := sale.orderAll(2*users, 1, nil)
			maps.Copy(orders, moreOrders)
			if got := sale.audit(0); got.Orders != stock {
				t.Errorf("%d of %d sold: %v", got.Orders, stock, more)
			}
			sale.checkBalanced(0, more, orders)
		})
	}
}

func waitReady(t *testing.T, processes ...process) {
	t.Helper()
	for _, p := range processes {
		p.WaitHTTP(t, p.url+"/readyz?strict=1")
	}
}

// The process dies after the commit and before the reply. The repetition, to another process, returns the one order.
func TestRepetitionAfterADeathGetsTheOneAnswer(t *testing.T) {
	t.Parallel()
	s := sharedServers(t)
	a, b := startProcess(t, s), startProcess(t, s)
	sale := openSale(t, 10, `{"faults":[{"point":"after-commit","effect":"kill"}]}`, a, b)
	if got := sale.buy(0, 42, "once-only"); got.code != "network" {
		t.Fatalf("the process that should have died answered %+v", got)
	}
	<-a.Done()
	got := sale.buyUntilAnswered(1, 42, "once-only") // until then the reservation is still the dead process's
	if got.code != "created" {
		t.Fatalf("the repetition was told %+v", got)
	}
	if again := sale.buyUntilAnswered(1, 42, "once-only"); again != got {
		t.Errorf("told %+v, then %+v", got, again)
	}
	if a := sale.audit(1); a.Orders != 1 || !a.Balanced {
		t.Errorf("%+v", a)
	}
}

// SIGTERM during orders: the running ones are finished and answered.
func TestGracefulStopFinishesOrders(t *testing.T) {
	t.Parallel()
	s := sharedServers(t)
	a, b := startProcess(t, s), startProcess(t, s)
	sale := openSale(t, 100, `{"faults":[{"point":"critical-section","pause_ms":4000}]}`, a)
	answers := make(chan outcome)
	for user := range 20 {
		go func() { answers <- sale.buy(0, user+1, "") }()
	}
	b.WaitHTTP(t, b.url+"/readyz?strict=1")
	waitInFlight(t, a, 20)
	a.Terminate()
	for range 20 {
		if got := <-answers; got.code != "created" {
			t.Errorf("an order under way was told %+v", got)
		}
	}
	<-a.Done()
	if err := a.Wait(); err != nil {
		t.Errorf("the process ended with %v", err)
	}
	sale.urls = []string{b.url}
	if got := sale.audit(0); got.Orders != 20 || !got.Balanced {
		t.Errorf("%+v", got)
	}
}

// waitInFlight waits until a process has that many running requests, besides the one that asks.
func waitInFlight(t *testing.T, p process, n int) {
	t.Helper()
	want := fmt.Sprintf("seckill_http_requests_in_flight %d\n", n)
	deadline := time.Now().Add(patience)
	for {
		_, body := call(t, http.MethodGet, p.url+"/metrics", nil, "")
		if strings.Contains(body, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("never %q in\n%s", want, body)
		}
	}
}

func TestRedisTopologies(t *testing.T) {
	t.Parallel()
	sell := func(t *testing.T, s servers) (*testSale, process) {
		t.Helper()
		p := startProcess(t, s)
		sale := openSale(t, 30, `{"lock_wait_ms":5000}`, p)
		codes, orders := sale.orderAll(60, 1, nil)
		sale.checkBalanced(0, codes, orders)
		if len(orders) != 30 {
			t.Errorf("%d of 30 sold: %v", len(orders), codes)
		}
		return sale, p
	}
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		sell(t, servers{db: testkit.MariaDB(t), redis: testkit.RedisCluster(t)})
	})
	t.Run("sentinel, primary killed", func(t *testing.T) {
		t.Parallel()
		sentinel := testkit.RedisSentinel(t)
		_, p := sell(t, servers{db: testkit.MariaDB(t), redis: sentinel.Addrs}.with("SECKILL_REDIS_MASTER="+sentinel.MasterName))
		sentinel.KillPrimary()
		p.WaitHTTP(t, p.url+"/readyz?strict=1")
		sale := openSale(t, 10, `{"lock_wait_ms":5000}`, p)
		codes, orders := sale.orderAll(20, 1, nil)
		sale.checkBalanced(0, codes, orders)
	})
}
