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
	"sync"
	"testing"
	"time"

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

// startProcess starts the service in lab mode, unless the servers' env says
// otherwise.
func startProcess(t *testing.T, s servers) process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	redis := ""
	for i, addr := range s.redis {
		redis += map[bool]string{true: ",", false: ""}[i > 0] + addr
	}
	p := testkit.Start(t, testkit.Command{Path: self, Env: append([]string{
		"SECKILL_TEST_AS_SERVICE=1", "SECKILL_ADDR=127.0.0.1:0", "SECKILL_LAB=1",
		"SECKILL_MYSQL_DSN=" + s.db.DSN, "SECKILL_REDIS_ADDRS=" + redis,
		"SECKILL_JWT_SECRET=" + secret, "SECKILL_ADMIN_TOKEN=" + token,
	}, s.env...)})
	return process{p, p.WaitLine(t, `serving on (http://[^\s,]+)`)[1]}
}

// shop is a voucher on sale at several processes.
type shop struct {
	t       *testing.T
	urls    []string
	voucher string
	buckets int // 0 is 1
	client  *http.Client
}

func openShop(t *testing.T, stock int, policy string, processes ...process) *shop {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	s := &shop{t: t, client: &http.Client{Transport: transport, Timeout: time.Minute}}
	for _, p := range processes {
		s.urls = append(s.urls, p.url)
	}
	now := time.Now()
	status, body := call(t, http.MethodPost, s.urls[0]+"/api/v1/vouchers", nil, fmt.Sprintf(
		`{"title":"t","stock":%d,"begin_at":%q,"end_at":%q,"policy":%s}`,
		stock, now.Format(time.RFC3339Nano), now.Add(time.Hour).Format(time.RFC3339Nano), policy))
	var created struct{ ID string }
	if err := json.Unmarshal([]byte(body), &created); err != nil || status != http.StatusCreated {
		t.Fatalf("create voucher: %d %s", status, body)
	}
	s.voucher = created.ID
	return s
}

// outcome is what one buyer was told.
type outcome struct {
	code  string // "created", "accepted", a problem's code, or "network"
	order string
}

// buy sends one order to the i-th process.
func (s *shop) buy(i, user int, key string) outcome {
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

// connections is how many buyers are served at a time.
const connections = 32

// rush sends each user's requests, all users at once over a bounded number of
// connections, and counts what they were told. The orders are by their ids, and say
// whose they are. during is told of every answer.
func (s *shop) rush(users, each int, during func(answered int)) (codes, orders map[string]int) {
	var mu sync.Mutex
	codes, orders = map[string]int{}, map[string]int{}
	type ask struct{ user, i int }
	asks := make(chan ask)
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			for a := range asks {
				got := s.buy(a.i, a.user, "")
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

// audit is what the database says, asked through the i-th process.
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

func (s *shop) audit(i int) (a audit) {
	s.t.Helper()
	status, body := call(s.t, http.MethodGet, s.urls[i]+"/api/v1/vouchers/"+s.voucher+"/audit", nil, "")
	if err := json.Unmarshal([]byte(body), &a); err != nil || status != http.StatusOK {
		s.t.Fatalf("audit: %d %s", status, body)
	}
	return a
}

// mustBeRight is what every safe sale comes to, whatever died in it.
func (s *shop) mustBeRight(i int, codes, orders map[string]int) {
	s.t.Helper()
	a := s.audit(i)
	if !a.Balanced || a.Oversold != 0 || a.DuplicateOrders != 0 {
		s.t.Errorf("the sale is not right: %+v", a)
	}
	if len(orders) > a.Orders {
		s.t.Errorf("%d orders were accepted, the database has %d", len(orders), a.Orders)
	}
	s.t.Logf("%v; %+v", codes, a)
}
