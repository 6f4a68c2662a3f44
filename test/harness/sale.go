package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

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

// OpenSale puts a voucher on sale under a policy, which is JSON, at the processes.
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
	fail.If(s.T, json.Unmarshal(body, &answer), "%d with a body that is not JSON: %s", resp.StatusCode, bytes.TrimSpace(body))
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

// SameOrder reports whether two answers tell of one order, which may be confirmed by now, or are the same refusal.
func SameOrder(a, b Outcome) bool { return a.Order == b.Order && (a.Order != "" || a.Code == b.Code) }
