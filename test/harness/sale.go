package harness

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

// Stores are the database and the Redis that several API processes share.
type Stores struct {
	DB    testkit.Database
	Redis []string // host:port of each
	Env   []string
}

func (s Stores) With(env ...string) Stores {
	s.Env = append(append([]string(nil), s.Env...), env...)
	return s
}

// Process is a service in a process of its own.
type Process struct {
	*testkit.Process
	URL string
}

// Start starts the service in lab mode, unless env says otherwise.
func Start(t *testing.T, s Stores) Process {
	t.Helper()
	return StartProgram(t, SelfPath(t), s)
}

// StartProgram is startProcess with another build of the service.
func StartProgram(t *testing.T, path string, s Stores) Process {
	t.Helper()
	return Served(t, Launch(t, path, s))
}

// Served waits until a process that was launched serves.
func Served(t *testing.T, p *testkit.Process) Process {
	t.Helper()
	return Process{p, p.WaitLine(t, `serving on (http://[^\s,]+)`)[1]}
}

func Launch(t *testing.T, path string, s Stores) *testkit.Process {
	t.Helper()
	redis := ""
	for i, addr := range s.Redis {
		redis += map[bool]string{true: ",", false: ""}[i > 0] + addr
	}
	return testkit.Start(t, testkit.Command{Path: path, Env: append([]string{
		AsService, "SECKILL_ADDR=127.0.0.1:0", "SECKILL_LAB=1",
		"SECKILL_MYSQL_DSN=" + s.DB.DSN, "SECKILL_REDIS_ADDRS=" + redis,
		"SECKILL_JWT_SECRET=" + Secret, "SECKILL_ADMIN_TOKEN=" + AdminToken,
		"SECKILL_SHUTDOWN_DELAY=0s", // no balancer to wait for
	}, s.Env...)})
}

// SelfPath is the path of the test's binary, which is the service, too.
func SelfPath(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// Patience bounds a wait. It only ends a test that hangs: a slow machine is no failure.
const Patience = 2 * time.Minute

// RedisAt returns a client for the Redis at an address.
func RedisAt(t *testing.T, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Sale is a voucher on sale at several processes.
type Sale struct {
	T       *testing.T
	URLs    []string
	Voucher string
	Buckets int // 0 is 1
	// admission: the flow is admission. The answer to an order is then accepted, and to a repetition created if the
	// order is confirmed by then.
	admission bool
	Client    *http.Client
}

func OpenSale(t *testing.T, stock int, policy string, processes ...Process) *Sale {
	t.Helper()
	return OpenSaleOf(t, fmt.Sprintf(`"stock":%d`, stock), policy, processes...)
}

// OpenSaleOf puts a voucher with the given fields on sale.
func OpenSaleOf(t *testing.T, fields, policy string, processes ...Process) *Sale {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	s := &Sale{T: t, admission: strings.Contains(policy, `"admission"`), Client: &http.Client{Transport: transport, Timeout: time.Minute}}
	for _, p := range processes {
		s.URLs = append(s.URLs, p.URL)
	}
	now := time.Now()
	voucher := fmt.Sprintf(`{"title":"t",%s,"begin_at":%q,"end_at":%q,"policy":%s}`,
		fields, now.Format(time.RFC3339Nano), now.Add(time.Hour).Format(time.RFC3339Nano), policy)
	var status int
	var body string
	testkit.Until(t, "the voucher's creation has an answer", func() bool { // a connection may still be of an outage
		status, body = Call(t, http.MethodPost, s.URLs[0]+"/api/v1/vouchers", nil, voucher)
		return status != http.StatusServiceUnavailable
	})
	var created struct{ ID string }
	if err := json.Unmarshal([]byte(body), &created); err != nil || status != http.StatusCreated {
		t.Fatalf("create voucher: %d %s", status, body)
	}
	s.Voucher = created.ID
	return s
}

// Outcome is the answer to one order.
type Outcome struct {
	Code  string // "created", "accepted", a problem's code, or "network"
	Order string
}

// Buy sends one order to the i-th process.
func (s *Sale) Buy(i, user int, key string) Outcome {
	req, err := http.NewRequestWithContext(s.T.Context(), http.MethodPost,
		s.URLs[i%len(s.URLs)]+"/api/v1/vouchers/"+s.Voucher+"/orders", nil)
	if err != nil {
		s.T.Error(err)
		return Outcome{}
	}
	req.Header.Set("X-User-ID", strconv.Itoa(user))
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := s.Client.Do(req)
	if err != nil {
		return Outcome{Code: "network"}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return Outcome{Code: "network"}
	}
	var answer struct {
		OrderID string `json:"order_id"`
		Code    string
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		s.T.Errorf("%d with a body that is not JSON: %s", resp.StatusCode, bytes.TrimSpace(body))
	}
	switch resp.StatusCode {
	case http.StatusCreated:
		return Outcome{"created", answer.OrderID}
	case http.StatusAccepted:
		return Outcome{"accepted", answer.OrderID}
	}
	return Outcome{Code: answer.Code}
}

// BuyUntilAnswered repeats an order until the answer is neither a network error, unavailable nor busy. An order by
// admission that was repeated is "accepted" even if it is confirmed by then.
func (s *Sale) BuyUntilAnswered(i, user int, key string) (told Outcome) {
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		switch told = s.Buy(i, user, key); told.Code {
		case "network", "unavailable", "busy":
			continue
		case "created":
			if s.admission {
				told.Code = "accepted"
			}
		}
		return told
	}
	return told
}

// Ask asks as a user until the answer is not unavailable or busy, as a client does: on a busy machine a server may be
// late, also while an audit takes its lock.
func Ask(t *testing.T, url string, user int) (status int, body string) {
	t.Helper()
	testkit.Until(t, "an answer of "+url, func() bool {
		status, body = Call(t, http.MethodGet, url, http.Header{"X-User-Id": {strconv.Itoa(user)}}, "")
		return status != http.StatusServiceUnavailable && !strings.Contains(body, `"busy"`)
	})
	return status, body
}

// Connections is the number of concurrent buyers.
const Connections = 32

// OrderAll sends the orders of all users at once over a bounded number of connections, and counts the answers.
// orders has the user of each accepted order, by order id. during is called after every answer.
func (s *Sale) OrderAll(users, each int, during func(answered int)) (codes, orders map[string]int) {
	return s.OrderAllBy(func(i, user int) Outcome { return s.Buy(i, user, "") }, users, each, during)
}

// OrderAllUntilAnswered is orderAll for users who send one order each and repeat it under a key until it is answered.
func (s *Sale) OrderAllUntilAnswered(users int) (codes, orders map[string]int) {
	return s.OrderAllUnder("key-", users)
}

// OrderAllUnder is orderAllUntilAnswered with keys that begin with a prefix.
func (s *Sale) OrderAllUnder(prefix string, users int) (codes, orders map[string]int) {
	return s.OrderAllBy(func(i, user int) Outcome { return s.BuyUntilAnswered(i, user, prefix+strconv.Itoa(user)) }, users, 1, nil)
}

func (s *Sale) OrderAllBy(send func(i, user int) Outcome, users, each int, during func(answered int)) (codes, orders map[string]int) {
	var mu sync.Mutex
	codes, orders = map[string]int{}, map[string]int{}
	type ask struct{ user, i int }
	asks := make(chan ask)
	var wg sync.WaitGroup
	for range Connections {
		wg.Go(func() {
			for a := range asks {
				got := send(a.i, a.user)
				mu.Lock()
				codes[got.Code]++
				if got.Order != "" {
					orders[got.Order] = a.user
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

// Audit is the audit of a voucher, through the i-th process.
type Audit struct {
	InitialStock    int `json:"initial_stock"`
	Stock           int
	Orders          int
	Oversold        int
	DuplicateOrders int `json:"duplicate_orders"`
	Unaccounted     int
	Pending         int
	Balanced        bool
}

func (s *Sale) Audit(i int) (a Audit) {
	s.T.Helper()
	status, body := Ask(s.T, s.URLs[i]+"/api/v1/vouchers/"+s.Voucher+"/audit", 1)
	if err := json.Unmarshal([]byte(body), &a); err != nil || status != http.StatusOK {
		s.T.Fatalf("audit: %d %s", status, body)
	}
	return a
}

// CheckBalanced fails the test if anything is oversold, duplicated or lost.
func (s *Sale) CheckBalanced(i int, codes, orders map[string]int) {
	s.T.Helper()
	a := s.Audit(i)
	if !a.Balanced || a.Oversold != 0 || a.DuplicateOrders != 0 {
		s.T.Errorf("the audit is not balanced: %+v", a)
	}
	if len(orders) > a.Orders {
		s.T.Errorf("%d orders were accepted, the database has %d", len(orders), a.Orders)
	}
	s.T.Logf("%v; %+v", codes, a)
}
