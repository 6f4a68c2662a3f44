package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/testkit"
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
	s := sharedServers(t)
	var addrs, urls []string
	var instances []process
	const delay = 2 * time.Second // ten polls of the balancer
	begin := func(i int) process {
		return startProcess(t, s.with("SECKILL_ADDR="+addrs[i], "SECKILL_SHUTDOWN_DELAY="+delay.String(), "SECKILL_LOG_LEVEL=warn"))
	}
	for i := range 2 {
		addrs = append(addrs, testkit.FreeAddr(t))
		instances = append(instances, begin(i))
		urls = append(urls, instances[i].url)
	}
	sale := openSale(t, 1_000_000, `{"flow":"admission"}`, instances...)
	front := newBalancer(t, urls...)
	public := httptest.NewServer(front)
	defer public.Close()

	sale.urls = []string{public.URL}
	var users atomic.Int64
	var mu sync.Mutex
	told := map[string]int{}
	stopLoad := again(16, func() {
		user := int(users.Add(1))
		got := sale.buyUntilAnswered(0, user, "key-"+strconv.Itoa(user)).code // a new instance may open the voucher slowly
		if status := sale.look(); status != http.StatusOK {
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
		testkit.Until(t, "the balancer uses the new instance", front.backends[i].ready.Load)
	}
	stopLoad()
	t.Logf("of %d requests %d failed at the balancer and %d were answered 5xx; buyers were told %v",
		front.served.Load()+front.failed.Load(), front.failed.Load(), front.refused.Load(), told)
	if n := front.failed.Load(); n != 0 || len(told) != 1 || told["accepted"] == 0 {
		t.Errorf("%d requests failed; buyers were told %v, want accepted alone", n, told)
	}
	return front.refused.Load()
}

// again calls do in n goroutines, again and again, until stop is called.
func again(n int, do func()) (stop func()) {
	over := make(chan struct{})
	var running sync.WaitGroup
	for range n {
		running.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					do()
				}
			}
		})
	}
	return func() {
		close(over)
		running.Wait()
	}
}

// look reads the voucher and returns the status.
func (s *testSale) look() int { return s.see("/" + s.voucher) }

// see reads what is at a path below the vouchers, and returns the status.
func (s *testSale) see(path string) int {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.urls[0]+"/api/v1/vouchers"+path, nil)
	if err != nil {
		return 0
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// During the delay the service answers, reports that it is not ready, and closes every connection after its
// answer. A second signal ends the delay at once.
func TestShutdownDelay(t *testing.T) {
	s := sharedServers(t)
	p := startProcess(t, s.with("SECKILL_SHUTDOWN_DELAY=1m"))
	p.Terminate()
	testkit.Until(t, "not ready", func() bool { return !asksReady(t.Context(), p.url) })
	resp, err := http.Get(p.url + "/api/v1/vouchers")
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
	s := sharedServers(t)
	real := startProcess(t, s.with("SECKILL_SHUTDOWN_DELAY="))
	real.Terminate()
	if got := real.WaitLine(t, `"not ready; still serving","for":"([^"]*)"`)[1]; got != "5s" {
		t.Errorf("with real stores the delay is %s, want 5s", got)
	}
	real.Terminate() // do not wait for it
	embedded := testkit.Start(t, testkit.Command{Path: selfPath(t), Env: []string{
		"SECKILL_TEST_AS_SERVICE=1", "SECKILL_ADDR=127.0.0.1:0", "SECKILL_LOG_LEVEL=info",
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
			s := servers{db: mariadb.Database(t), redis: []string{redis.Addr()}}
			p := startProcess(t, s.with("SECKILL_SHUTDOWN_TIMEOUT="+timeout.String()))
			locked, admitted := openSale(t, 100, `{}`, p), openSale(t, 100, `{"flow":"admission"}`, p)
			accepted := admitted.buy(0, 1, "")
			if accepted.code != "accepted" {
				t.Fatal(accepted.code)
			}
			// What hangs in each case: locked orders need both, orders by admission need Redis.
			hanging := []*testSale{locked}
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
					go func() { answers <- sale.buy(0, user+100, "").code }()
				}
			}
			waitInFlight(t, p, each*len(hanging))
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
			next := startProcess(t, s)
			admitted.urls = []string{next.url}
			testkit.Until(t, "the accepted order is confirmed", func() bool { return admitted.statusOf(0, accepted.order, 1) == "confirmed" })
		})
	}
}

// Servers that have died cannot be told that their connections end. That is no failure of the stop.
func TestStopAfterServersDied(t *testing.T) {
	t.Parallel()
	mariadb, redis := testkit.NewMariaDB(t), testkit.NewRedis(t)
	p := startProcess(t, servers{db: mariadb.Database(t), redis: []string{redis.Addr()}})
	locked, admitted := openSale(t, 100, `{}`, p), openSale(t, 100, `{"flow":"admission"}`, p)
	for user := range 10 {
		if one, other := locked.buy(0, user+1, "").code, admitted.buy(0, user+1, "").code; one != "created" || other != "accepted" {
			t.Fatalf("user %d is told %q and %q", user+1, one, other)
		}
	}
	mariadb.Kill()
	redis.Kill()
	if code := locked.buy(0, 100, "").code; code != "unavailable" {
		t.Errorf("with both servers dead a buyer is told %q", code)
	}
	p.Terminate()
	if err := p.Wait(); err != nil {
		t.Errorf("the stop ended with %v", err)
	}
}
