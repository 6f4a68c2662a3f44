package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
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

// Servers that hang do not prevent the service from stopping: the running requests are answered with
// unavailable, and the exit code is 0.
func TestStopWhileServersHang(t *testing.T) {
	mariadb, redis := testkit.NewMariaDB(t), testkit.NewRedis(t)
	s := servers{db: mariadb.Database(t), redis: []string{redis.Addr()}}
	p := startProcess(t, s.with("SECKILL_SHUTDOWN_TIMEOUT=1s"))
	locked, admitted := openSale(t, 100, `{}`, p), openSale(t, 100, `{"flow":"admission"}`, p)
	if got := admitted.buy(0, 1, "").code; got != "accepted" {
		t.Fatal(got)
	}
	mariadb.Pause()
	redis.Pause()
	defer mariadb.Resume()
	defer redis.Resume()
	answers := make(chan string, 20)
	for user := range 10 {
		go func() { answers <- locked.buy(0, user+100, "").code }()
		go func() { answers <- admitted.buy(0, user+100, "").code }()
	}
	waitInFlight(t, p, 20)
	began := time.Now()
	err := p.Stop()
	told := map[string]int{}
	for range 20 {
		told[<-answers]++
	}
	t.Logf("the stop took %v and ended with %v; buyers were told %v", time.Since(began).Round(100*time.Millisecond), err, told)
	if err != nil || told["network"] != 0 {
		t.Errorf("the stop ended with %v; buyers were told %v", err, told)
	}
}
