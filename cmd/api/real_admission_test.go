package main

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/testkit"
)

// atRest waits until no order is in flight, and returns the audit. Entries of a dead process are claimed by
// another one after 30 s.
func (s *testSale) atRest(i int) audit {
	s.t.Helper()
	var a audit
	testkit.Until(s.t, "no order is in flight", func() bool {
		a = s.audit(i)
		return a.Pending == 0
	})
	return a
}

// status returns the status of an order as its user sees it.
func (s *testSale) status(i int, order string, user int, wait string) string {
	s.t.Helper()
	_, body := ask(s.t, s.urls[i]+"/api/v1/orders/"+order+wait, user)
	_, status, _ := strings.Cut(body, `"status":"`)
	status, _, _ = strings.Cut(status, `"`)
	return status
}

// checkSoldOut checks that all stock was sold by admission, and nothing twice. It returns how many of the
// accepted orders are not confirmed.
func (s *testSale) checkSoldOut(i, stock int, orders map[string]int) (lost int) {
	s.t.Helper()
	a := s.atRest(i)
	if a.Orders != stock || a.Stock != 0 || !a.Balanced {
		s.t.Errorf("the sale is wrong: %+v", a)
	}
	confirmed := map[string]int{}
	for id, user := range orders {
		confirmed[s.status(i, id, user, "")]++
	}
	s.t.Logf("%d accepted: %v; %+v", len(orders), confirmed, a)
	return len(orders) - confirmed["confirmed"]
}

// checkAllConfirmed is checkSoldOut, and no accepted order may be lost.
func (s *testSale) checkAllConfirmed(stock int, orders map[string]int) {
	s.t.Helper()
	if lost := s.checkSoldOut(0, stock, orders); lost > 0 {
		s.t.Errorf("%d accepted orders were lost", lost)
	}
}

const admissionPolicy = `{"flow":"admission"}`

func TestAdmissionOverTwoProcesses(t *testing.T) {
	t.Parallel()
	const users, stock = 2000, 500
	s := sharedServers(t)
	a, b := startProcess(t, s), startProcess(t, s)
	sale := openSale(t, stock, admissionPolicy, a, b)
	codes, orders := sale.orderAllBy(func(i, user int) outcome { // each of them twice, under two keys
		return sale.buyUntilAnswered(i, user, "request-"+strconv.Itoa(i))
	}, users, 2, nil)
	if len(orders) != stock || codes["accepted"] != stock || codes["sold_out"]+codes["already_ordered"] != 2*users-stock {
		t.Errorf("%v", codes)
	}
	sale.checkAllConfirmed(stock, orders)

	t.Run("a waiting buyer is told by any process", func(t *testing.T) {
		sale := openSale(t, 10, admissionPolicy, a, b)
		for user := 1; user <= 10; user++ {
			got := sale.buyUntilAnswered(user, user, "once")
			if got.code != "accepted" {
				t.Fatalf("told %+v", got)
			}
			begun := time.Now()
			if status := sale.status((user+1)%2, got.order, user, "?wait=20s"); status != "confirmed" {
				t.Errorf("order %s is %q", got.order, status)
			}
			if took := time.Since(begun); took > 15*time.Second { // not the end of the wait
				t.Errorf("waited %v", took)
			}
			if again := sale.buyUntilAnswered(user+1, user, "once"); !sameOrder(again, got) {
				t.Errorf("told %+v, then %+v", got, again)
			}
		}
	})
}

// A sale by admission during which a process or a server dies.
func TestAdmissionSurvives(t *testing.T) {
	t.Parallel()
	const users, stock, pace = 1500, 1000, 40 * time.Millisecond
	for _, tc := range []struct {
		name string
		lost bool // orders that were accepted may be forgotten
		kill func(t *testing.T, mariadb *testkit.SQLServer, server *testkit.RedisServer, a process)
	}{
		{"SIGKILL of an API process", false, func(_ *testing.T, _ *testkit.SQLServer, _ *testkit.RedisServer, a process) { a.Kill() }},
		{"SIGTERM of an API process", false, func(_ *testing.T, _ *testkit.SQLServer, _ *testkit.RedisServer, a process) { a.Terminate() }},
		{"SIGKILL of MariaDB", false, func(_ *testing.T, mariadb *testkit.SQLServer, _ *testkit.RedisServer, _ process) {
			mariadb.Kill()
			mariadb.Restart()
		}},
		{"SIGKILL of Redis", false, func(_ *testing.T, _ *testkit.SQLServer, server *testkit.RedisServer, _ process) {
			server.Kill()
			server.Restart()
		}},
		{"Redis emptied", true, func(t *testing.T, _ *testkit.SQLServer, server *testkit.RedisServer, _ process) {
			if err := server.Client(t).FlushAll(t.Context()).Err(); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			mariadb, server := testkit.NewMariaDB(t, "--innodb-flush-log-at-trx-commit=1"), testkit.NewRedis(t, "--appendonly", "yes", "--appendfsync", "always")
			s := servers{db: mariadb.Database(t), redis: []string{server.Addr()}}
			a, b := startProcess(t, s), startProcess(t, s)
			sale := openSale(t, stock, admissionPolicy, b, a)
			// The buyers come at a pace at which orders are accepted and persisted at the
			// same time, and the kill falls into that: some are in the database, some on
			// their way, some still to be sold.
			var codes, orders map[string]int
			var answered atomic.Int64
			var load sync.WaitGroup
			load.Go(func() {
				codes, orders = sale.orderAll(users, 1, func(n int) {
					answered.Store(int64(n))
					time.Sleep(pace)
				})
			})
			var before audit
			testkit.Until(t, "a tenth is sold", func() bool {
				before = sale.audit(0)
				return before.Orders >= stock/10
			})
			tc.kill(t, mariadb, server, a)
			after := int(answered.Load())
			load.Wait()
			t.Logf("killed with %+v; %d answered when it was done", before, after)
			if before.Stock == 0 {
				t.Error("all was sold before the kill: it proves nothing")
			}
			t.Log(codes)
			if codes["internal"] > 0 || codes[""] > 0 {
				t.Errorf("answers without a reason: %v", codes)
			}
			// The sale goes on until all is sold.
			sale.urls = sale.urls[:1]
			waitReady(t, b)
			deadline := time.Now().Add(patience)
			for sale.atRest(0).Stock > 0 && time.Now().Before(deadline) {
				_, more := sale.orderAll(2*users, 1, nil)
				maps.Copy(orders, more)
			}
			lost := sale.checkSoldOut(0, stock, orders)
			switch {
			case !tc.lost && lost > 0:
				t.Errorf("%d accepted orders were lost", lost)
			case lost > after-before.Orders+connections:
				t.Errorf("%d accepted orders were lost, more than were on their way", lost)
			}
		})
	}
}

// The only process is stopped while orders are in flight. The next start persists them.
func TestAdmissionOutlivesItsProcesses(t *testing.T) {
	t.Parallel()
	const stock = 300
	s := sharedServers(t)
	a := startProcess(t, s)
	sale := openSale(t, stock, admissionPolicy, a)
	_, orders := sale.orderAllUntilAnswered(stock)
	a.Terminate()
	<-a.Done()
	if err := a.Wait(); err != nil {
		t.Errorf("the process ended with %v", err)
	}
	sale.urls = []string{startProcess(t, s).url}
	sale.checkAllConfirmed(stock, orders)
}

func TestAdmissionOnARedisCluster(t *testing.T) {
	t.Parallel()
	s := servers{db: testkit.MariaDB(t), redis: testkit.RedisCluster(t)}
	a, b := startProcess(t, s), startProcess(t, s)
	for range 4 { // in as many slots
		sale := openSale(t, 50, admissionPolicy, a, b)
		codes, orders := sale.orderAllUntilAnswered(100)
		if codes["accepted"] != 50 || codes["sold_out"] != 50 {
			t.Errorf("%v", codes)
		}
		sale.checkAllConfirmed(50, orders)
	}
}

// TestAdmissionEmbedded sells on SQLite and a Redis in the process.
func TestAdmissionEmbedded(t *testing.T) {
	t.Parallel()
	r := start(t, nil, nil)
	url := curlLine.FindStringSubmatch(r.curl)[3]
	url, _, _ = strings.Cut(url, "/api/")
	sale := openSale(t, 50, admissionPolicy, process{url: url})
	codes, orders := sale.orderAll(100, 1, nil)
	if codes["accepted"] != 50 || codes["sold_out"] != 50 {
		t.Errorf("%v", codes)
	}
	for id, user := range orders {
		if status := sale.status(0, id, user, "?wait=20s"); status != "confirmed" {
			t.Fatalf("an order is %q", status)
		}
	}
	sale.checkAllConfirmed(50, orders)
	for _, want := range []string{
		`seckill_admission_decisions_total{outcome="accepted"} 50`, `seckill_fulfil_delay_seconds_count 50`,
		`seckill_fulfil_backlog_orders`, `seckill_orders_total{outcome="pending"} 50`,
	} {
		testkit.Until(t, want+" is in the metrics", func() bool { // an order is counted after its entry has gone
			_, metrics := call(t, http.MethodGet, url+"/metrics", nil, "")
			return strings.Contains(metrics, want)
		})
	}
	if err := r.end(); err != nil {
		t.Errorf("a stop on request is an error: %v", err)
	}
	if logs := noticed(r.logs.String()); logs != "" {
		t.Errorf("a normal run logged:\n%s", logs)
	}
}

func TestUserRate(t *testing.T) {
	t.Parallel()
	r := start(t, []string{"-user-rate", "0.1"}, nil)
	if status, body := r.buy(t); status != http.StatusCreated {
		t.Errorf("%d %s", status, body)
	}
	if status, body := r.buy(t); status != http.StatusTooManyRequests || !strings.Contains(body, `"rate_limited"`) {
		t.Errorf("%d %s", status, body)
	}
}
