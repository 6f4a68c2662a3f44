package faults

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/test/harness"
)

// Two instances behind a balancer are restarted one after the other while buyers come. No request fails, neither
// an order, which no proxy repeats, nor a read.
func TestRollingRestart(t *testing.T) { rollingRestart(t, 1) }

// On a quiet machine none is answered 5xx either: a new instance opens the voucher soon enough.
func TestSoakRollingRestart(t *testing.T) {
	testkit.Soak(t)
	if refused := rollingRestart(t, 10); refused != 0 {
		t.Errorf("%d requests were answered 5xx", refused)
	}
}

// rollingRestart restarts both instances some times, and returns how many requests were answered 5xx.
func rollingRestart(t *testing.T, rounds int) (refused int64) {
	t.Helper()
	s := harness.NewStores(t)
	var addrs, urls []string
	var instances []harness.Process
	const delay = 2 * time.Second // ten polls of the balancer
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
	})
	for n := range rounds * len(instances) {
		i := n % len(instances)
		if err := instances[i].Stop(); err != nil {
			t.Errorf("instance %d ended with %v", i, err)
		}
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
	return front.Refused.Load()
}

// During the delay the service answers, reports that it is not ready, and closes every connection after its
// answer. A second signal ends the delay at once.
func TestShutdownDelay(t *testing.T) {
	s := harness.NewStores(t)
	p := harness.Start(t, s.With("SECKILL_SHUTDOWN_DELAY=1m"))
	p.Terminate()
	testkit.Until(t, "not ready", func() bool { return !harness.Ready(t.Context(), p.URL) })
	resp, err := http.Get(p.URL + "/api/v1/vouchers")
	if err != nil {
		t.Fatalf("no answer during the delay: %v", err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !resp.Close {
		t.Errorf("%s, Connection: close is %v", resp.Status, resp.Close)
	}
	p.Terminate()
	select {
	case <-p.Done():
	case <-time.After(20 * time.Second):
		t.Error("the second signal did not end the delay")
	}
}

// The delay is 5 s with real stores, and none in the embedded service, where nobody polls /readyz.
func TestShutdownDelayByDefault(t *testing.T) {
	s := harness.NewStores(t)
	real := harness.Start(t, s.With("SECKILL_SHUTDOWN_DELAY="))
	real.Terminate()
	if got := real.WaitLine(t, `"not ready; still serving","for":"([^"]*)"`)[1]; got != "5s" {
		t.Errorf("with real stores the delay is %s, want 5s", got)
	}
	real.Terminate() // do not wait for it
	embedded := testkit.Start(t, testkit.Command{Path: harness.SelfPath(t), Env: []string{
		harness.AsService, "SECKILL_ADDR=127.0.0.1:0", "SECKILL_LOG_LEVEL=info",
	}})
	embedded.WaitLine(t, `(http://127\.0\.0\.1:\d+)`)
	if err := embedded.Stop(); err != nil {
		t.Error(err)
	}
	if log := embedded.Output(); strings.Contains(log, "still serving") || !strings.Contains(log, `"stopping"`) {
		t.Errorf("the embedded service has a delay:\n%s", log)
	}
}

// Servers that hang do not prevent the service from stopping in time: the running requests are answered with
// unavailable, the exit code is 0, and an order that was accepted before is confirmed by the next process.
func TestStopWhileServersHang(t *testing.T) {
	t.Parallel()
	const timeout = time.Second // SECKILL_SHUTDOWN_TIMEOUT
	// The steps of a stop as in docs/operations.md: finish, cancel, hand over; and slack for a busy machine.
	const limit = timeout + 14*time.Second + 11*time.Second + 2*time.Second
	for _, c := range []struct {
		name            string
		database, redis bool
	}{{"database", true, false}, {"Redis", false, true}, {"both", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mariadb, redis := testkit.NewMariaDB(t), testkit.NewRedis(t)
			s := harness.Stores{DB: mariadb.Database(t), Redis: []string{redis.Addr()}}
			p := harness.Start(t, s.With("SECKILL_SHUTDOWN_TIMEOUT="+timeout.String()))
			locked, admitted := harness.OpenSale(t, 100, `{}`, p), harness.OpenSale(t, 100, `{"flow":"admission"}`, p)
			accepted := admitted.Buy(0, 1, "")
			if accepted.Code != "accepted" {
				t.Fatal(accepted.Code)
			}
			// What hangs in each case: locked orders need both, orders by admission need Redis.
			hanging := []*harness.Sale{locked}
			if c.redis {
				hanging = append(hanging, admitted)
				redis.Pause()
			}
			if c.database {
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
			watch := testkit.StartStopwatch()
			p.Terminate()
			err := p.Wait()
			took := watch.Stop()
			told := map[string]int{}
			for range each * len(hanging) {
				told[<-answers]++
			}
			mariadb.Resume()
			redis.Resume()
			t.Logf("the stop took %v of %v and ended with %v; buyers were told %v", took.Round(100*time.Millisecond), limit, err, told)
			if err != nil || took > limit || told["unavailable"] != each*len(hanging) {
				t.Errorf("the stop took %v of %v and ended with %v; buyers were told %v", took, limit, err, told)
			}
			next := harness.Start(t, s)
			admitted.URLs = []string{next.URL}
			testkit.Until(t, "the accepted order is confirmed", func() bool { return admitted.StatusOf(0, accepted.Order, 1) == "confirmed" })
		})
	}
}

// Servers that have died cannot be told that their connections end. That is no failure of the stop.
func TestStopAfterServersDied(t *testing.T) {
	t.Parallel()
	mariadb, redis := testkit.NewMariaDB(t), testkit.NewRedis(t)
	p := harness.Start(t, harness.Stores{DB: mariadb.Database(t), Redis: []string{redis.Addr()}})
	locked, admitted := harness.OpenSale(t, 100, `{}`, p), harness.OpenSale(t, 100, `{"flow":"admission"}`, p)
	for user := range 10 {
		if one, other := locked.Buy(0, user+1, "").Code, admitted.Buy(0, user+1, "").Code; one != "created" || other != "accepted" {
			t.Fatalf("user %d is told %q and %q", user+1, one, other)
		}
	}
	mariadb.Kill()
	redis.Kill()
	if code := locked.Buy(0, 100, "").Code; code != "unavailable" {
		t.Errorf("with both servers dead a buyer is told %q", code)
	}
	p.Terminate()
	if err := p.Wait(); err != nil {
		t.Errorf("the stop ended with %v", err)
	}
}
