package faults

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// An instance of two behind a balancer is restarted while buyers come. No request fails, neither an order, which no
// proxy repeats, nor a read, and each order that was accepted is confirmed.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	rollingRestart(t, 1)
}

// How many are answered 5xx, and ask again, is logged: a new instance may open the voucher slowly.
func TestSoakRollingRestart(t *testing.T) {
	testkit.Soak(t)
	rollingRestart(t, 20)
}

func rollingRestart(t *testing.T, restarts int) {
	t.Helper()
	s := harness.NewStores(t)
	var addrs, urls []string
	var instances []harness.Process
	const delay = 5 * time.Second // 25 polls of the balancer
	begin := func(i int) harness.Process {
		return harness.Start(t, s.With("SECKILL_ADDR="+addrs[i], "SECKILL_SHUTDOWN_DELAY="+delay.String(), "SECKILL_LOG_LEVEL=warn"))
	}
	for i := range 2 {
		addrs = append(addrs, testkit.FreeAddr(t))
		instances = append(instances, begin(i))
		urls = append(urls, instances[i].URL)
	}
	sale := harness.OpenSale(t, 1_000_000, `{"flow":"admission"}`, instances...)
	front := harness.NewBalancer(t, urls...)
	public := httptest.NewServer(front)
	defer public.Close()

	sale.URLs = []string{public.URL}
	var users atomic.Int64
	var mu sync.Mutex
	told := map[string]int{}
	stopLoad := harness.Again(16, func() {
		user := int(users.Add(1))
		got := sale.BuyUntilAnswered(0, user, "key-"+strconv.Itoa(user)).Code // a new instance may open the voucher slowly
		if status := sale.Look(); status != http.StatusOK {
			got = fmt.Sprintf("GET %d", status)
		}
		mu.Lock()
		told[got]++
		mu.Unlock()
		time.Sleep(20 * time.Millisecond) // as buyers come
	})
	for n := range restarts {
		i := n % len(instances)
		fail.If(t, instances[i].Stop(), "the end of instance %d", i)
		instances[i] = begin(i)
		instances[i].WaitHTTP(t, urls[i]+"/readyz")
		testkit.Until(t, "the balancer uses the new instance", front.Backends[i].Ready.Load)
	}
	stopLoad()
	t.Logf("of %d requests %d failed at the balancer and %d were answered 5xx; buyers were told %v",
		front.Served.Load()+front.Failed.Load(), front.Failed.Load(), front.Refused.Load(), told)
	if n := front.Failed.Load(); n != 0 || len(told) != 1 || told["accepted"] == 0 {
		t.Errorf("%d requests failed; buyers were told %v, want accepted alone", n, told)
	}
	sale.URLs = urls
	if a := sale.AtRest(0); a.Orders != told["accepted"] || !a.Balanced {
		t.Errorf("%d orders were accepted: %+v", told["accepted"], a)
	}
}

// During the delay the service answers, reports that it is not ready, and closes every connection after its answer. A
// Redis that begins to evict is noticed then, too. A second signal ends the delay, which is the longest there is.
func TestShutdownDelay(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t, "--appendonly", "yes")
	client := server.Client(t)
	p := harness.Start(t, harness.Stores{DB: testkit.MariaDB(t), Redis: []string{server.Addr()}}.With("SECKILL_SHUTDOWN_DELAY=10m"))
	sale := harness.OpenSale(t, 1000, harness.AdmissionPolicy, p)
	p.Terminate()
	testkit.Until(t, "not ready", func() bool { return !harness.Ready(t.Context(), p.URL) })
	resp, err := http.Get(p.URL + "/api/v1/vouchers")
	fail.NowIf(t, err, "no answer during the delay")
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !resp.Close {
		t.Errorf("%s, Connection: close is %v", resp.Status, resp.Close)
	}
	user := 1
	fail.Unequal(t, sale.BuyUntilAnswered(0, user, "first").Code, "accepted", "during the delay")
	configSet(t, client, "maxmemory-policy", "allkeys-lru")
	testkit.Until(t, "orders are refused", func() bool { user++; return sale.Buy(0, user, "").Code == "unavailable" })
	configSet(t, client, "maxmemory-policy", "noeviction")
	testkit.Until(t, "orders are accepted", func() bool { user++; return sale.Buy(0, user, "").Code == "accepted" })
	p.Terminate()
	testkit.Until(t, "the process has ended", func() bool {
		select {
		case <-p.Done():
			return true
		default:
			return false
		}
	})
}

// SIGTERM while orders are under way: those under a lock are finished and answered. Those that were accepted and cannot
// be persisted stay in Redis, for another process. Neither is a failure of the stop.
func TestStopFinishesOrders(t *testing.T) {
	t.Parallel()
	s := harness.NewStores(t)
	a := harness.Start(t, s)
	locked, admitted := harness.OpenSale(t, 100, `{}`, a), harness.OpenSale(t, 20, harness.AdmissionPolicy, a)
	releaseAdmitted := admitted.HoldRow(s.DB)
	_, orders := admitted.OrderAllUntilAnswered(20)
	release := locked.HoldRow(s.DB)
	answers := make(chan harness.Outcome)
	for user := range 20 {
		go func() { answers <- locked.Buy(0, user+1, "") }()
	}
	harness.WaitInFlight(t, a, 20)
	a.Terminate()
	a.WaitLine(t, `"stopping"`)
	release()
	for range 20 {
		fail.Unequal(t, (<-answers).Code, "created", "an order under way")
	}
	fail.If(t, a.Wait(), "the end of the process")
	releaseAdmitted()
	b := harness.Start(t, s)
	locked.URLs, admitted.URLs = []string{b.URL}, []string{b.URL}
	if got := locked.Audit(0); got.Orders != 20 || !got.Balanced {
		t.Errorf("%+v", got)
	}
	admitted.CheckAllConfirmed(20, orders)
}

// Servers that hang do not prevent the service from stopping: the running requests are answered with unavailable, the
// exit code is 0, and an order that was accepted before is confirmed by the next process.
func TestStopWhileServersHang(t *testing.T) {
	t.Parallel()
	stopWhileHanging(t, true, true, nil)
}

func TestSoakStopWhileServersHang(t *testing.T) {
	testkit.Soak(t)
	figures := harness.NewFigures(t)
	for n := range 3 {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			stopWhileHanging(t, true, false, figures)
			stopWhileHanging(t, false, true, figures)
			stopWhileHanging(t, true, true, figures)
		})
	}
}

func stopWhileHanging(t *testing.T, database, redis bool, figures *harness.Figures) {
	t.Helper()
	const timeout = time.Second // SECKILL_SHUTDOWN_TIMEOUT
	// The steps of a stop as in docs/deploy.md: finish, cancel, hand over.
	const limit = timeout + 14*time.Second + 11*time.Second
	mariadb, server := testkit.NewMariaDB(t), testkit.NewRedis(t)
	s := harness.Stores{DB: mariadb.Database(t), Redis: []string{server.Addr()}}
	p := harness.Start(t, s.With("SECKILL_SHUTDOWN_TIMEOUT="+timeout.String()))
	locked, admitted := harness.OpenSale(t, 100, `{}`, p), harness.OpenSale(t, 100, harness.AdmissionPolicy, p)
	accepted := admitted.Buy(0, 1, "")
	fail.NowUnequal(t, accepted.Code, "accepted")
	// What hangs in each case: locked orders need both, orders by admission need Redis.
	hanging := []*harness.Sale{locked}
	if redis {
		hanging = append(hanging, admitted)
		server.Pause()
	}
	if database {
		mariadb.Pause()
	}
	const each = 10
	answers := make(chan string, 2*each)
	for user := range each {
		for _, sale := range hanging {
			go func() { answers <- sale.Buy(0, user+100, "").Code }()
		}
	}
	harness.WaitInFlight(t, p, each*len(hanging))
	begun := time.Now()
	p.Terminate()
	err := p.Wait()
	figures.Took(fmt.Sprintf("stop while hanging: database %t, Redis %t", database, redis), time.Since(begun), limit)
	told := map[string]int{}
	for range each * len(hanging) {
		told[<-answers]++
	}
	mariadb.Resume()
	server.Resume()
	if err != nil || told["unavailable"] != each*len(hanging) {
		t.Errorf("the stop ended with %v; buyers were told %v", err, told)
	}
	admitted.URLs = []string{harness.Start(t, s).URL}
	testkit.Until(t, "the accepted order is confirmed", func() bool { return admitted.StatusOf(0, accepted.Order, 1) == "confirmed" })
}
