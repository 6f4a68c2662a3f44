package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"seckill/internal/httpapi"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// keepingKeys is a fixture whose voucher keeps the keys of its orders: a request under the key of an order that is
// there is told of that order.
func keepingKeys(t *testing.T, options ...option) *fixture {
	t.Helper()
	r := newFixture(t, append(options, lab)...)
	r.orders.keepsKeys = true
	r.orders.place = func(_ context.Context, req order.Request) (order.Order, error) {
		if err := req.MayLook(); err != nil {
			return order.Order{}, err
		}
		for _, o := range r.orders.orders {
			if o.UserID == req.UserID && o.Key == req.Key {
				o.Repeated = true
				return o, nil
			}
		}
		o := order.Order{ID: 1001, VoucherID: req.VoucherID, UserID: req.UserID, Status: order.Pending, Key: req.Key}
		r.orders.orders = append(r.orders.orders, o)
		return o, nil
	}
	return r
}

// The order itself is the record of its key: nothing is reserved, and a repetition is told of the order in the state
// that it has by then.
func TestOrderKeepsItsKey(t *testing.T) {
	r := keepingKeys(t)
	first := r.do(t, keyed("k"))
	if first.Code != http.StatusAccepted || first.Header().Get("Idempotency-Replayed") != "" {
		t.Fatalf("%d %s", first.Code, first.Body)
	}
	sameAnswer(t, first, r.do(t, keyed("k")))
	r.orders.orders[0].Status = order.Confirmed
	again := r.do(t, keyed("k"))
	if want := `{"order_id":"1001","status":"confirmed"}`; !replayed(again) || again.Code != http.StatusCreated || again.Body.String() != want {
		t.Errorf("%d %s, want 201 %s", again.Code, again.Body, want)
	}
	for _, req := range r.orders.requests() {
		if req.Key != order.HashKey("k") || req.Resumed || req.UserID != 42 || req.VoucherID != 1 {
			t.Errorf("placed as %+v", req)
		}
	}
	fail.Unequal(t, len(r.idem.records), 0, "keys were reserved")
	fail.Unequal(t, r.metric(t, "seckill_orders_total", "replayed"), 2, "replays counted")
}

// The flow decides about a request under its key: memory is not asked here, and each look-up is charged to the user.
func TestOrderUnderItsKeyIsTheFlows(t *testing.T) {
	r := keepingKeys(t, func(_ *httpapi.Config, r *fixture) { r.lookups = &quota{left: 1} })
	r.orders.refusal = voucher.ErrSoldOut
	r.want(t, keyed("k"), http.StatusAccepted)
	wantProblem(t, r.do(t, keyed("k")), http.StatusTooManyRequests, "rate_limited")
	r.orders.place = failing(voucher.ErrNotStarted) // looks for nothing
	wantProblem(t, r.do(t, keyed("k")), http.StatusConflict, "sale_not_started")
	fail.Unequal(t, len(r.idem.records), 0, "keys were reserved")
}

// Where it is not known who keeps the key, nothing is done: an order without its key could not be repeated.
func TestNobodyKnowsWhoKeepsTheKey(t *testing.T) {
	r := keepingKeys(t)
	r.orders.keepsKeys, r.orders.keysErr = false, order.ErrUnavailable
	wantProblem(t, r.do(t, keyed("k")), http.StatusServiceUnavailable, "unavailable")
	r.orders.keysErr = errors.New("cannot be read")
	if rec := r.do(t, keyed("k")); rec.Code < 500 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	fail.Unequal(t, len(r.orders.requests()), 0, "orders placed")
}
