package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
)

// servers are the database and the Redis that several API processes share.
type servers struct {
	db    testkit.Database
	redis []string // host:port of each
	env   []string
}

func (s servers) with(env ...string) servers {
	s.env = append(append([]string(nil), s.env...), env...)
	return s
}

// process is a service in a process of its own.
type process struct {
	*testkit.Process
	url string
}

// startProcess starts the service in lab mode, unless env says otherwise.
func startProcess(t *testing.T, s servers) process {
	t.Helper()
	return startProgram(t, selfPath(t), s)
}

// startProgram is startProcess with another build of the service.
func startProgram(t *testing.T, path string, s servers) process {
	t.Helper()
	return served(t, launch(t, path, s))
}

// served waits until a process that was launched serves.
func served(t *testing.T, p *testkit.Process) process {
	t.Helper()
	return process{p, p.WaitLine(t, `serving on (http://[^\s,]+)`)[1]}
}

func launch(t *testing.T, path string, s servers) *testkit.Process {
	t.Helper()
	redis := ""
	for i, addr := range s.redis {
		redis += map[bool]string{true: ",", false: ""}[i > 0] + addr
	}
	return testkit.Start(t, testkit.Command{Path: path, Env: append([]string{
		"SECKILL_TEST_AS_SERVICE=1", "SECKILL_ADDR=127.0.0.1:0", "SECKILL_LAB=1",
		"SECKILL_MYSQL_DSN=" + s.db.DSN, "SECKILL_REDIS_ADDRS=" + redis,
		"SECKILL_JWT_SECRET=" + secret, "SECKILL_ADMIN_TOKEN=" + token,
		"SECKILL_SHUTDOWN_DELAY=0s", // no balancer to wait for
	}, s.env...)})
}

// selfPath is the path of the test's binary, which is the service, too.
func selfPath(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// patience bounds a wait. It only ends a test that hangs: a slow machine is no failure.
const patience = 2 * time.Minute

// redisAt returns a client for the Redis at an address.
func redisAt(t *testing.T, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// testSale is a voucher on sale at several processes.
type testSale struct {
	t       *testing.T
	urls    []string
	voucher string
	buckets int // 0 is 1
	// admission: the flow is admission. The answer to an order is then accepted, and to a repetition created if the
	// order is confirmed by then.
	admission bool
	client    *http.Client
}

func openSale(t *testing.T, stock int, policy string, processes ...process) *testSale {
	t.Helper()
	return openSaleOf(t, fmt.Sprintf(`"stock":%d`, stock), policy, processes...)
}

// openSaleOf puts a voucher with the given fields on sale.
func openSaleOf(t *testing.T, fields, policy string, processes ...process) *testSale {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	s := &testSale{t: t, admission: strings.Contains(policy, `"admission"`), client: &http.Client{Transport: transport, Timeout: time.Minute}}
	for _, p := range processes {
		s.urls = append(s.urls, p.url)
	}
	now := time.Now()
	voucher := fmt.Sprintf(`{"title":"t",%s,"begin_at":%q,"end_at":%q,"policy":%s}`,
		fields, now.Format(time.RFC3339Nano), now.Add(time.Hour).Format(time.RFC3339Nano), policy)
	var status int
	var body string
	testkit.Until(t, "the voucher's creation has an answer", func() bool { // a connection may still be of an outage
		status, body = call(t, http.MethodPost, s.urls[0]+"/api/v1/vouchers", nil, voucher)
		return status != http.StatusServiceUnavailable
	})
	var created struct{ ID string }
	if err := json.Unmarshal([]byte(body), &created); err != nil || status != http.StatusCreated {
		t.Fatalf("create voucher: %d %s", status, body)
	}
	s.voucher = created.ID
	return s
}

// outcome is the answer to one order.
type outcome struct {
	code  string // "created", "accepted", a problem's code, or "network"
	order string
}

// buy sends one order to the i-th process.
func (s *testSale) buy(i, user int, key string) outcome {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost,
		s.urls[i%len(s.urls)]+"/api/v1/vouchers/"+s.voucher+"/orders", nil)
	if err != nil {
		s.t.Error(err)
		return outcome{}
	}
	req.Header.Set("X-User-ID", strconv.Itoa(user))
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return outcome{code: "network"}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return outcome{code: "network"}
	}
	var answer struct {
		OrderID string `json:"order_id"`
		Code    string
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		s.t.Errorf("%d with a body that is not JSON: %s", resp.StatusCode, bytes.TrimSpace(body))
	}
	switch resp.StatusCode {
	case http.StatusCreated:
		return outcome{"created", answer.OrderID}
	case http.StatusAccepted:
		return outcome{"accepted", answer.OrderID}
	}
	return outcome{code: answer.Code}
}

// buyUntilAnswered repeats an order until the answer is neither a network error, unavailable nor busy. An order by
// admission that was repeated is "accepted" even if it is confirmed by then.
func (s *testSale) buyUntilAnswered(i, user int, key string) (told outcome) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		switch told = s.buy(i, user, key); told.code {
		case "network", "unavailable", "busy":
			continue
		case "created":
			if s.admission {
				told.code = "accepted"
			}
		}
		return told
	}
	return told
}

// ask asks as a user until the answer is not unavailable or busy, as a client does: on a busy machine a server may be
// late, also while an audit takes its lock.
func ask(t *testing.T, url string, user int) (status int, body string) {
	t.Helper()
	testkit.Until(t, "an answer of "+url, func() bool {
		status, body = call(t, http.MethodGet, url, http.Header{"X-User-Id": {strconv.Itoa(user)}}, "")
		return status != http.StatusServiceUnavailable && !strings.Contains(body, `"busy"`)
	})
	return status, body
}

// connections is the number of concurrent buyers.
const connections = 32

// orderAll sends the orders of all users at once over a bounded number of connections, and counts the answers.
// orders has the user of each accepted order, by order id. during is called after every answer.
func (s *testSale) orderAll(users, each int, during func(answered int)) (codes, orders map[string]int) {
	return s.orderAllBy(func(i, user int) outcome { return s.buy(i, user, "") }, users, each, during)
}

// orderAllUntilAnswered is orderAll for users who send one order each and repeat it under a key until it is answered.
func (s *testSale) orderAllUntilAnswered(users int) (codes, orders map[string]int) {
	return s.orderAllUnder("key-", users)
}

// orderAllUnder is orderAllUntilAnswered with keys that begin with a prefix.
func (s *testSale) orderAllUnder(prefix string, users int) (codes, orders map[string]int) {
	return s.orderAllBy(func(i, user int) outcome { return s.buyUntilAnswered(i, user, prefix+strconv.Itoa(user)) }, users, 1, nil)
}

func (s *testSale) orderAllBy(send func(i, user int) outcome, users, each int, during func(answered int)) (codes, orders map[string]int) {
	var mu sync.Mutex
	codes, orders = map[string]int{}, map[string]int{}
	type ask struct{ user, i int }
	asks := make(chan ask)
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			for a := range asks {
				got := send(a.i, a.user)
				mu.Lock()
				codes[got.code]++
				if got.order != "" {
					orders[got.order] = a.user
				}
				answered := 0
				for n := range maps.Values(codes) {
					answered += n
				}
				mu.Unlock()
				if during != nil {
					during(answered)
				}
			}
		})
	}
	i := 0
	for user := range users {
		for range each {
			asks <- ask{user + 1, i}
			i++
		}
	}
	close(asks)
	wg.Wait()
	return codes, orders
}

// audit is the audit of a voucher, through the i-th process.
type audit struct {
	InitialStock    int `json:"initial_stock"`
	Stock           int
	Orders          int
	Oversold        int
	DuplicateOrders int `json:"duplicate_orders"`
	Unaccounted     int
	Pending         int
	Balanced        bool
}

func (s *testSale) audit(i int) (a audit) {
	s.t.Helper()
	status, body := ask(s.t, s.urls[i]+"/api/v1/vouchers/"+s.voucher+"/audit", 1)
	if err := json.Unmarshal([]byte(body), &a); err != nil || status != http.StatusOK {
		s.t.Fatalf("audit: %d %s", status, body)
	}
	return a
}

// checkBalanced fails the test if anything is oversold, duplicated or lost.
func (s *testSale) checkBalanced(i int, codes, orders map[string]int) {
	s.t.Helper()
	a := s.audit(i)
	if !a.Balanced || a.Oversold != 0 || a.DuplicateOrders != 0 {
		s.t.Errorf("the audit is not balanced: %+v", a)
	}
	if len(orders) > a.Orders {
		s.t.Errorf("%d orders were accepted, the database has %d", len(orders), a.Orders)
	}
	s.t.Logf("%v; %+v", codes, a)
}
