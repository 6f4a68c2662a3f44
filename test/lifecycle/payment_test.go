package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/payment"
	"seckill/internal/payment/sandbox"
	"seckill/internal/service"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// The lines that an embedded service prints buy a voucher, pay it in the sandbox, and show that it is paid.
func TestPrintedLinesPay(t *testing.T) {
	for _, tool := range []string{"sh", "curl", "sed"} {
		testkit.Tool(t, "the printed lines need it", tool)
	}
	s := harness.StartInProcess(t, nil, nil)
	shell := exec.CommandContext(t.Context(), "sh", "-e")
	shell.Stdin = strings.NewReader(s.Pay)
	out, err := shell.CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"status":"paid"`) {
		t.Errorf("%v: %s\nof the lines\n%s", err, out, s.Pay)
	}
}

// shop is an embedded service with a payment provider that the test controls.
type shop struct {
	*harness.InProcess
	url      string
	provider *sandbox.Sandbox
	client   *payment.Client // as another one that has the key
	webhooks *payment.Webhooks
	end      func() // ends the provider
}

func openShop(t *testing.T, behaviour sandbox.Behaviour) *shop {
	t.Helper()
	p, err := sandbox.Open(t.Context(), sandbox.Config{
		Addr: "127.0.0.1:0", APIKey: harness.PaymentKey, Secrets: []string{harness.WebhookSecret}, Behaviour: behaviour, Log: slog.New(slog.DiscardHandler),
	})
	fail.NowIf(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	s := &shop{provider: p, end: sync.OnceFunc(func() {
		cancel()
		fail.If(t, <-ended, "the end of the sandbox")
	})}
	t.Cleanup(s.end)
	s.InProcess = harness.StartInProcess(t, nil, []string{
		"SECKILL_PAYMENT_URL=" + p.URL(), "SECKILL_PAYMENT_API_KEY=" + harness.PaymentKey, "SECKILL_PAYMENT_WEBHOOK_SECRET=" + harness.WebhookSecret,
		"SECKILL_USER_LOOKUPS=100000", // the tests ask again and again
	})
	s.url = regexp.MustCompile(`http://[^,]+`).FindString(s.Banner)
	p.SetWebhookURL(s.url + service.PaymentsPath)
	if s.client, err = payment.NewClient(payment.ClientConfig{URL: p.URL(), Key: harness.PaymentKey}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	if s.webhooks, err = payment.NewWebhooks(harness.WebhookSecret); err != nil {
		t.Fatal(err)
	}
	return s
}

// request sends a request as a user and parses the answer; it fails the test if the status is another one.
func (s *shop) request(t *testing.T, user int, method, path, body string, want int, answer any) {
	t.Helper()
	status, text := harness.Call(t, method, s.url+path, http.Header{"X-User-ID": {fmt.Sprint(user)}}, body)
	fail.NowUnequal(t, status, want, "%s %s: %s", method, path, text)
	if answer != nil {
		fail.NowIf(t, json.Unmarshal([]byte(text), answer), "%s", text)
	}
}

// sell puts a voucher on sale and returns its id.
func (s *shop) sell(t *testing.T, stock int, within time.Duration) string {
	t.Helper()
	return s.sellBy(t, `{}`, stock, within)
}

// sellBy is sell with a policy.
func (s *shop) sellBy(t *testing.T, policy string, stock int, within time.Duration) string {
	t.Helper()
	var v struct{ ID string }
	s.request(t, 1, "POST", "/api/v1/vouchers", fmt.Sprintf(`{"title":"t","price_cents":8000,"stock":%d,"pay_within_s":%d,`+
		`"begin_at":"2020-01-01T00:00:00Z","end_at":"2120-01-01T00:00:00Z","policy":%s}`, stock, int(within.Seconds()), policy), 201, &v)
	return v.ID
}

// bothFlows are the policies of a sale under each flow.
var bothFlows = map[string]string{"locked": `{}`, "admission": `{"flow":"admission","buckets":2}`}

// bought is an order with its payment.
type bought struct {
	user                 int
	order, payment, page string
}

func (s *shop) buyAs(t *testing.T, user int, voucherID string) bought {
	t.Helper()
	var o struct {
		ID     string `json:"order_id"`
		Status string
	}
	testkit.Until(t, "the order is placed", func() bool { // stock that was given back may be on its way
		status, text := harness.Call(t, "POST", s.url+"/api/v1/vouchers/"+voucherID+"/orders", http.Header{"X-User-ID": {fmt.Sprint(user)}}, "")
		return status/100 == 2 && json.Unmarshal([]byte(text), &o) == nil
	})
	testkit.Until(t, "the order is in the database", func() bool {
		s.request(t, user, "GET", "/api/v1/orders/"+o.ID+"?wait=2s&state=pending", "", 200, &o)
		return o.Status != "pending"
	})
	var p struct {
		ID  string `json:"payment_id"`
		URL string `json:"pay_url"`
	}
	s.request(t, user, "POST", "/api/v1/orders/"+o.ID+"/payment", "", 201, &p)
	return bought{user, o.ID, p.ID, p.URL}
}

func pressPay(t *testing.T, page string) {
	t.Helper()
	resp, err := http.PostForm(page, url.Values{"decision": {"pay"}})
	fail.NowIf(t, err)
	_ = resp.Body.Close()
}

// shown is an order as its user sees it.
type shown struct {
	Status   string
	Payments []received
}

type received struct{ Outcome, Refund string }

func (s *shop) show(t *testing.T, b bought) (o shown) {
	t.Helper()
	s.request(t, b.user, "GET", "/api/v1/orders/"+b.order, "", 200, &o)
	return o
}

func (s *shop) await(t *testing.T, b bought, status string) shown {
	t.Helper()
	var o shown
	testkit.Until(t, "the order is "+status, func() bool { o = s.show(t, b); return o.Status == status })
	return o
}

// given returns how much of a payment went back.
func (s *shop) given(t *testing.T, b bought) int64 {
	t.Helper()
	p, err := s.client.Payment(t.Context(), b.payment)
	fail.NowIf(t, err)
	return p.RefundedCents
}

func (s *shop) balanced(t *testing.T, voucherID string, stock int) {
	t.Helper()
	var audit struct {
		Stock    int
		Balanced bool
	}
	s.request(t, 1, "GET", "/api/v1/vouchers/"+voucherID+"/audit", "", 200, &audit)
	if !audit.Balanced || audit.Stock != stock {
		t.Errorf("audit %+v, want a stock of %d", audit, stock)
	}
}

// atRest is balanced, once what is on its way between the database and Redis has arrived.
func (s *shop) atRest(t *testing.T, voucherID string, stock int) {
	t.Helper()
	testkit.Until(t, "nothing is on its way", func() bool {
		var audit struct{ Stock, Pending int }
		s.request(t, 1, "GET", "/api/v1/vouchers/"+voucherID+"/audit", "", 200, &audit)
		return audit.Stock == stock && audit.Pending == 0
	})
	s.balanced(t, voucherID, stock)
}

func (s *shop) metric(t *testing.T, name string) string {
	t.Helper()
	_, text := harness.Call(t, http.MethodGet, s.url+"/metrics", nil, "")
	value := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(text)
	if value == nil {
		return ""
	}
	return value[1]
}

// Events that come three times and in another order than they happened: an order is paid once, and refunded once.
func TestPaymentEventsTwiceAndOutOfOrder(t *testing.T) {
	t.Parallel()
	s := openShop(t, sandbox.Behaviour{Duplicate: 2, ReorderMS: 1})
	voucherID := s.sell(t, 2, time.Hour)
	b := s.buyAs(t, 7, voucherID)
	fail.Unequal(t, s.paymentOf(t, b), b.payment, "the payment of the repeated call")
	pressPay(t, b.page)
	s.await(t, b, "paid")
	s.balanced(t, voucherID, 1)
	s.request(t, 1, "POST", "/api/v1/orders/"+b.order+"/refund", "", 202, nil)
	s.await(t, b, "refunded")
	testkit.Until(t, "each event came three times", func() bool {
		return s.metric(t, `seckill_payment_events_total{result="ok",type="payment.paid"}`) == "3" &&
			s.metric(t, `seckill_payment_events_total{result="ok",type="payment.refunded"}`) == "3"
	})
	if o := s.show(t, b); o.Status != "refunded" || len(o.Payments) != 1 || s.given(t, b) != 8000 {
		t.Errorf("%+v, and %d cents were given back", o, s.given(t, b))
	}
	s.balanced(t, voucherID, 2)
	fail.Unequal(t, s.metric(t, `seckill_payments_cents_total{outcome="paid"}`), "8000", "cents were counted as paid")
}

func (s *shop) paymentOf(t *testing.T, b bought) string {
	t.Helper()
	var p struct {
		ID string `json:"payment_id"`
	}
	s.request(t, b.user, "POST", "/api/v1/orders/"+b.order+"/payment", "", 201, &p)
	return p.ID
}

// A webhook that is lost does not lose the money: the provider is asked.
func TestLostPaymentEventIsLookedUp(t *testing.T) {
	t.Parallel()
	s := openShop(t, sandbox.Behaviour{Lose: 1})
	voucherID := s.sell(t, 1, 20*time.Second)
	b := s.buyAs(t, 7, voucherID)
	pressPay(t, b.page)
	var o shown
	// A busy machine may ask when the order has expired: then the money takes a unit again.
	testkit.Until(t, "the order is paid", func() bool { o = s.show(t, b); return o.Status == "paid" })
	fail.Unequal(t, s.metric(t, `seckill_payment_events_total{result="ok",type="payment.paid"}`), "0", "events came")
	s.balanced(t, voucherID, 0)
}

// Money that is on its way when the order expires takes the voucher that is left.
func TestPaymentAfterTheOrderHasExpired(t *testing.T) {
	t.Parallel()
	for flow, policy := range bothFlows {
		t.Run(flow, func(t *testing.T) {
			t.Parallel()
			payAfterExpiry(t, policy)
		})
	}
}

func payAfterExpiry(t *testing.T, policy string) {
	s := openShop(t, sandbox.Behaviour{})
	for within, user := 3*time.Second, 7; ; within, user = 2*within, user+1 { // a busy machine may not press the button in time
		voucherID := s.sellBy(t, policy, 1, within)
		fail.NowIf(t, s.provider.SetBehaviour(sandbox.Behaviour{PayLateMS: int(within.Milliseconds()) + 1500}))
		b := s.buyAs(t, user, voucherID)
		pressPay(t, b.page)
		if p, err := s.client.Payment(t.Context(), b.payment); err != nil || p.Status == payment.StatusExpired {
			continue
		}
		if o := s.await(t, b, "paid"); len(o.Payments) != 1 || o.Payments[0].Outcome != "paid_late" || s.given(t, b) != 0 {
			t.Errorf("%+v, and %d cents were given back", o, s.given(t, b))
		}
		s.atRest(t, voucherID, 0)
		return
	}
}

// Webhooks that are forged, stale or about nothing that is known change no order, and money that is not what was asked
// for pays none. What each of them is answered and becomes is in the tables of internal/httpapi, payment and database.
func TestPaymentEventsThatAreWrong(t *testing.T) {
	t.Parallel()
	s := openShop(t, sandbox.Behaviour{})
	voucherID := s.sell(t, 1, time.Hour)
	b := s.buyAs(t, 7, voucherID)
	event := func(id, reference string, cents int64) string {
		now := time.Now().UTC()
		text, err := json.Marshal(payment.Event{Type: payment.EventPaid, Timestamp: now, Data: payment.Payment{
			ID: id, Reference: reference, AmountCents: cents, Currency: "EUR", Status: payment.StatusPaid, PaidAt: &now, PayURL: "http://pay.test/x",
		}})
		fail.NowIf(t, err)
		return string(text)
	}
	right := event(b.payment, b.order, 8000)
	for _, c := range []struct {
		what, body   string
		age          time.Duration
		forged       bool
		want         int
		status, paid string // of the order afterwards, and its payments
	}{
		{"forged", right, 0, true, 401, "unpaid", "[]"},
		{"stale", right, time.Hour, false, 401, "unpaid", "[]"},
		{"of an unknown order", event("pay_unknown", "4242", 8000), 0, false, 204, "unpaid", "[]"},
		{"too little", event("pay_wrong", b.order, 1), 0, false, 204, "unpaid", "[{wrong_amount due}]"},
		{"right", right, 0, false, 204, "paid", "[{paid } {wrong_amount due}]"},
		{"right, again", right, 0, false, 204, "paid", "[{paid } {wrong_amount due}]"},
	} {
		h := http.Header{}
		fail.NowIf(t, s.webhooks.Sign(h, "msg_1", time.Now().Add(-c.age), []byte(c.body)))
		if c.forged {
			h.Set(payment.HeaderSignature, "v1,"+strings.Repeat("A", 43)+"=")
		}
		if status, body := harness.Call(t, http.MethodPost, s.url+service.PaymentsPath, h, c.body); status != c.want {
			t.Errorf("%s: %d %s, want %d", c.what, status, body, c.want)
		}
		o := s.show(t, b)
		slices.SortFunc(o.Payments, func(a, b received) int { return strings.Compare(a.Outcome, b.Outcome) })
		if o.Status != c.status || fmt.Sprint(o.Payments) != c.paid {
			t.Errorf("%s: the order is %+v, want %s %s", c.what, o, c.status, c.paid)
		}
	}
	s.request(t, 8, "POST", "/api/v1/orders/"+b.order+"/payment", "", 404, nil) // another user's order
	s.balanced(t, voucherID, 0)
}
