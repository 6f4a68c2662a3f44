package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"seckill/internal/httpapi"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
)

// fakeLifecycle returns what a test sets.
type fakeLifecycle struct {
	order   order.Order
	payment order.Payment
	// returnTo is what Pay was called with.
	returnTo string
	details  order.Details
	await    func(context.Context, order.Order, time.Duration) error
	err      error
}

func (f *fakeLifecycle) Cancel(context.Context, int64, int64) (order.Order, error) {
	return f.order, f.err
}

func (f *fakeLifecycle) Pay(_ context.Context, _, _ int64, returnTo string) (order.Payment, error) {
	f.returnTo = returnTo
	return f.payment, f.err
}

func (f *fakeLifecycle) Refund(context.Context, int64) (order.Order, error) { return f.order, f.err }

func (f *fakeLifecycle) Details(_ context.Context, o order.Order) (order.Details, error) {
	if o.Status == order.Confirmed {
		return order.Details{}, nil
	}
	return f.details, nil
}

func (f *fakeLifecycle) Await(ctx context.Context, o order.Order, limit time.Duration) error {
	return f.await(ctx, o, limit)
}

func TestOrdersThatArePaid(t *testing.T) {
	r := newFixture(t, lab)
	user := []string{"X-User-ID: 42"}
	at := start()
	r.lifecycle.payment = order.Payment{ID: "pay_1", URL: "http://pay.example/pay_1", OrderID: 7, AmountCents: 800, PayBy: at.Add(time.Minute)}
	r.lifecycle.order = order.Order{ID: 7, VoucherID: 1, UserID: 42, Status: order.Cancelled, CreatedAt: at}
	r.lifecycle.details = order.Details{
		PayBy: at.Add(time.Minute), AmountCents: 800, PaidAt: at.Add(time.Second),
		History:  []order.HistoryEntry{{Status: order.Unpaid, At: at}, {Status: order.Cancelled, At: at.Add(time.Second)}},
		Payments: []order.PaymentRecord{{PaymentID: "pay_1", AmountCents: 800, Outcome: order.RefundNoStock, RefundDue: true}, {PaymentID: "pay_2", AmountCents: 800, Outcome: order.RefundNotPayable, RefundedAt: at}},
	}
	const details = `"created_at":"2030-01-02T03:04:05Z","pay_by":"2030-01-02T03:05:05Z","paid_at":"2030-01-02T03:04:06Z",` +
		`"history":[{"status":"unpaid","at":"2030-01-02T03:04:05Z"},{"status":"cancelled","at":"2030-01-02T03:04:06Z"}],` +
		`"payments":[{"payment_id":"pay_1","amount_cents":800,"outcome":"no_stock","refund":"due"},{"payment_id":"pay_2","amount_cents":800,"outcome":"not_payable","refund":"done"}]}`
	for _, c := range []struct {
		call   call
		status int
		body   string
	}{
		{call{"POST", "/api/v1/orders/7/payment", "", user}, 201, `{"payment_id":"pay_1","pay_url":"http://pay.example/pay_1","pay_by":"2030-01-02T03:05:05Z"}`},
		{call{"POST", "/api/v1/orders/7/cancel", "", user}, 200, `{"order_id":"7","voucher_id":"1","status":"cancelled",` + details},
		{call{"POST", "/api/v1/orders/7/refund", "", nil}, 202, `{"order_id":"7","voucher_id":"1","status":"cancelled",` + details},
	} {
		if rec := r.do(t, c.call); rec.Code != c.status || rec.Body.String() != c.body {
			t.Errorf("%s %s\n got %d %s\nwant %d %s", c.call.method, c.call.path, rec.Code, rec.Body, c.status, c.body)
		}
	}
}

// The buyer goes back to the page that has asked for the payment, and pays at the address at which that page is: on a
// phone, the address of the server's loopback interface is the phone's own.
func TestWhereIsPaid(t *testing.T) {
	r := newFixture(t, lab, withSite(t), func(_ *httpapi.Config, f *fixture) {
		f.pages = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Method + r.URL.Path)) })
	})
	const own = "http://127.0.0.1:4711"
	for _, c := range []struct{ at, origin, payURL, returnTo string }{
		{own + "/pay/x", "http://example.com", "http://example.com/sandbox/pay/x", "http://example.com/#order=7"},
		{own + "/pay/x", "https://example.com", "https://example.com/sandbox/pay/x", "https://example.com/#order=7"}, // behind a proxy
		{own + "/pay/x", "", "http://example.com/sandbox/pay/x", ""},                                                 // no browser
		{"https://pay.example/x", "http://example.com", "https://pay.example/x", "http://example.com/#order=7"},
		{own + "1/pay/x", "http://example.com", own + "1/pay/x", "http://example.com/#order=7"},
	} {
		r.lifecycle.payment = order.Payment{ID: "pay_1", URL: c.at, OrderID: 7, AmountCents: 800, PayBy: start()}
		headers := []string{"X-User-ID: 42"}
		if c.origin != "" {
			headers = append(headers, "Origin: "+c.origin)
		}
		rec := r.do(t, call{"POST", "/api/v1/orders/7/payment", "", headers})
		if rec.Code != http.StatusCreated || !strings.Contains(rec.Body.String(), `"pay_url":"`+c.payURL+`"`) || r.lifecycle.returnTo != c.returnTo {
			t.Errorf("%+v: %d %s, back to %q", c, rec.Code, rec.Body, r.lifecycle.returnTo)
		}
	}
	for _, method := range []string{"GET", "POST"} {
		rec := sent(t.Context(), r.handler, method, "/sandbox/pay/x", "example.com")
		fail.Unequal(t, rec.Body.String(), method+"/pay/x", "the page")
	}
	rec := sent(t.Context(), r.handler, "POST", "/sandbox/pay/x", "example.com", "Origin: http://elsewhere.example")
	wantProblem(t, rec, http.StatusForbidden, "forbidden")
}

func TestStatesThatDoNotAllowIt(t *testing.T) {
	r := newFixture(t, lab)
	user := []string{"X-User-ID: 42"}
	for _, c := range []struct {
		path, code string
		err        error
		status     int
	}{
		{"cancel", "not_cancellable", &order.StateError{Err: order.ErrNotCancellable, Status: order.Paid}, 409},
		{"payment", "not_payable", &order.StateError{Err: order.ErrNotPayable, Status: order.Paid}, 409},
		{"refund", "not_refundable", &order.StateError{Err: order.ErrNotRefundable, Status: order.Paid}, 409},
		{"payment", "unavailable", fmt.Errorf("create a payment: %w", order.ErrPaymentUnavailable), 503},
		{"cancel", "order_not_found", order.ErrNotFound, 404},
	} {
		r.lifecycle.err = c.err
		rec := r.do(t, call{"POST", "/api/v1/orders/7/" + c.path, "", user})
		p := wantProblem(t, rec, c.status, c.code)
		if c.status == http.StatusConflict && (p.Detail != "the order is paid" || p.OrderStatus != "paid") {
			t.Errorf("%s: %+v", c.path, p)
		}
		for _, body := range []string{`{"amount":1}`, `[`} {
			wantProblem(t, r.do(t, call{"POST", "/api/v1/orders/7/" + c.path, body, user}), 400, "invalid_request")
		}
	}
	r.lifecycle.err = fmt.Errorf("%w: code \"amount_too_small\"", order.ErrPaymentRefused)
	p := wantProblem(t, r.do(t, call{"POST", "/api/v1/orders/7/payment", "", user}), 409, "not_payable")
	fail.Unequal(t, p.Detail, "", "what the provider says to its operator, told to the buyer")
	if !strings.Contains(r.log.String(), "amount_too_small") {
		t.Error("the log does not say why the provider refuses")
	}
	strict := newFixture(t)
	for _, path := range []string{"payment", "cancel"} {
		wantProblem(t, strict.do(t, call{"POST", "/api/v1/orders/7/" + path, "", nil}), 401, "unauthenticated")
	}
}

func TestVoucherThatAsksForPayment(t *testing.T) {
	r := newFixture(t, lab)
	with := func(more string) string { return strings.TrimSuffix(voucherBody("", ""), "}") + more + "}" }
	body := with(`,"price_cents":800,"pay_within_s":900`)
	p := wantProblem(t, r.do(t, call{"POST", "/api/v1/vouchers", body, nil}), 400, "invalid_request")
	fail.Unequal(t, p.Detail, "pay_within_s: this server has no payment provider")
	r.vouchers.Payments = true
	rec := r.do(t, call{"POST", "/api/v1/vouchers", body, nil})
	if rec.Code != http.StatusCreated || r.vouchers.store.list[0].PayWithin != 15*time.Minute {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	for _, wrong := range []string{`,"pay_within_s":-1`, `,"pay_within_s":604801,"price_cents":1`, `,"pay_within_s":9223372036854775807`, `,"pay_within_s":60`} {
		wantProblem(t, r.do(t, call{"POST", "/api/v1/vouchers", with(wrong), nil}), 400, "invalid_request")
	}
}

// An administrator's list of a voucher's orders names their buyers.
func TestOrdersOfAVoucher(t *testing.T) {
	r, id := onSale(t)
	for n := range 3 {
		r.orders.orders = append(r.orders.orders, order.Order{ID: int64(9 - n), VoucherID: id, UserID: int64(40 + n), Status: order.Paid})
	}
	r.orders.orders = append(r.orders.orders, order.Order{ID: 1, VoucherID: id + 1, UserID: 42, Status: order.Paid})
	path := fmt.Sprintf("/api/v1/vouchers/%d/orders?limit=2", id)
	line := func(id, user int, voucher int64) string {
		return fmt.Sprintf(`{"order_id":"%d","voucher_id":"%d","user_id":"%d","status":"paid"}`, id, voucher, user)
	}
	for query, want := range map[string]string{
		"":          `{"orders":[` + line(9, 40, id) + "," + line(8, 41, id) + `],"next_before":"8"}`,
		"&before=8": `{"orders":[` + line(7, 42, id) + `]}`,
	} {
		fail.Unequal(t, r.do(t, call{"GET", path + query, "", nil}).Body.String(), want, "%s", query)
	}
}
