package httpapi_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"seckill/internal/httpapi"
	"seckill/internal/idempotency"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// quota allows a number of calls, for all users together.
type quota struct {
	mu   sync.Mutex
	left int
}

func (q *quota) Allow(int64) (time.Duration, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.left--
	if q.left < 0 {
		q.left = 0
		return 3600 * time.Millisecond, false
	}
	return 0, true
}

func (q *quota) Return(int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.left++
}

// TestARefusalFromMemoryReservesNothing checks that a request whose refusal is known stores no key, and that the answer
// of a key that is stored takes precedence.
func TestARefusalFromMemoryReservesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		code   string
	}{
		"sold out":    {voucher.ErrSoldOut, http.StatusConflict, "sold_out"},
		"ended":       {voucher.ErrEnded, http.StatusConflict, "sale_ended"},
		"not started": {voucher.ErrNotStarted, http.StatusConflict, "sale_not_started"},
		"unknown":     {voucher.ErrNotFound, http.StatusNotFound, "voucher_not_found"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, lab)
			first := r.do(t, keyed("bought"))
			r.orders.refusal = c.err
			wantProblem(t, r.do(t, keyed("new")), c.status, c.code)
			if _, there := r.idem.record(idempotency.Key{UserID: 42, Value: "new"}); there || len(r.orders.requests()) != 1 {
				t.Errorf("the key was reserved: %v; %d orders asked for, want 1", there, len(r.orders.requests()))
			}
			sameAnswer(t, first, r.do(t, keyed("bought")))
		})
	}
}

func TestKeysPerUser(t *testing.T) {
	keys := &quota{left: 2}
	r := newFixture(t, lab, func(_ *httpapi.Config, r *fixture) { r.keys = keys })
	r.do(t, keyed("a"))
	for range 3 { // a repetition stores nothing more
		r.do(t, keyed("a"))
	}
	fail.Unequal(t, keys.left, 1, "keys that are left of 2, after one and its repetitions")
	r.orders.place = failing(order.ErrBusy)
	wantProblem(t, r.do(t, keyed("b")), http.StatusConflict, "busy")
	fail.Unequal(t, keys.left, 1, "a key that is free again leaves")
	r.orders.place = nil
	r.do(t, keyed("c"))
	rec := r.do(t, keyed("d"))
	wantProblem(t, rec, http.StatusTooManyRequests, "rate_limited")
	fail.Unequal(t, rec.Header().Get("Retry-After"), "4", "Retry-After")
	if _, there := r.idem.record(idempotency.Key{UserID: 42, Value: "d"}); there {
		t.Error("the key was reserved beyond the quota")
	}
	r.want(t, keyed("a"), http.StatusCreated)
	// An administrator's keys are not counted.
	admin := call{"POST", "/api/v1/vouchers", voucherBody("", ""), []string{"Idempotency-Key: v"}}
	r.want(t, admin, http.StatusCreated)
}

func TestLookUpsPerUser(t *testing.T) {
	lookups := &quota{left: 3}
	r := newFixture(t, lab, func(_ *httpapi.Config, r *fixture) { r.lookups = lookups })
	user := []string{"X-User-ID: 42"}
	wantProblem(t, r.do(t, call{"GET", "/api/v1/orders/7", "", user}), http.StatusNotFound, "order_not_found")
	r.want(t, call{"GET", "/api/v1/orders", "", user}, http.StatusOK)
	r.orders.refusal = voucher.ErrSoldOut
	wantProblem(t, r.do(t, keyed("k")), http.StatusConflict, "sold_out")
	for _, c := range []call{{"GET", "/api/v1/orders/7", "", user}, {"GET", "/api/v1/orders", "", user}, keyed("l")} {
		rec := r.do(t, c)
		wantProblem(t, rec, http.StatusTooManyRequests, "rate_limited")
		if rec.Header().Get("Retry-After") == "" {
			t.Errorf("%s %s: no Retry-After", c.method, c.path)
		}
	}
	fail.Unequal(t, r.idem.finds.Load(), 1, "times that the store was asked")
}

// A key that is sent again and again costs as much as a look-up, whether its order was placed or the voucher is busy.
func TestRepeatedKeysAreLookUps(t *testing.T) {
	for name, tc := range map[string]struct {
		keepsKeys bool
		place     func(context.Context, order.Request) (order.Order, error)
	}{
		"placed, locked": {},
		"placed, admission": {true, func(_ context.Context, req order.Request) (order.Order, error) {
			if req.Key != 0 {
				return order.Order{ID: 7, Status: order.Pending}, req.MayLook()
			}
			return order.Order{ID: 8, Status: order.Pending}, nil
		}},
		"busy": {place: failing(order.ErrBusy)},
	} {
		t.Run(name, func(t *testing.T) {
			const allowed, sent = 5, 12
			r := newFixture(t, lab, func(_ *httpapi.Config, r *fixture) { r.lookups = &quota{left: allowed} })
			r.orders.keepsKeys, r.orders.place = tc.keepsKeys, tc.place
			answered := 0
			for range sent {
				rec := r.do(t, keyed("k"))
				if rec.Code != http.StatusTooManyRequests {
					answered++
					continue
				}
				wantProblem(t, rec, http.StatusTooManyRequests, "rate_limited")
			}
			fail.Unequal(t, answered, allowed, "of %d requests under one key were carried out", sent)
			// Without a key nothing is looked for.
			if rec := r.do(t, call{"POST", "/api/v1/vouchers/1/orders", "", []string{"X-User-ID: 42"}}); rec.Code == http.StatusTooManyRequests {
				t.Errorf("an order without a key: status %d", rec.Code)
			}
		})
	}
}

// A cancelled order is a row for ever, and its user may order again: one user could fill the database.
func TestCancelsPerUser(t *testing.T) {
	const allowed = 3
	cancels := &quota{left: allowed}
	r := newFixture(t, lab, func(_ *httpapi.Config, r *fixture) { r.cancels = cancels })
	cancel := call{"POST", "/api/v1/orders/7/cancel", "", []string{"X-User-ID: 42"}}
	r.lifecycle.err = &order.StateError{Err: order.ErrNotCancellable, Status: order.Paid}
	for range 2 * allowed { // nothing is cancelled
		wantProblem(t, r.do(t, cancel), http.StatusConflict, "not_cancellable")
	}
	r.lifecycle.err = nil
	r.lifecycle.order = order.Order{ID: 7, VoucherID: 1, UserID: 42, Status: order.Cancelled}
	for range allowed {
		r.want(t, cancel, http.StatusOK)
	}
	rec := r.do(t, cancel)
	wantProblem(t, rec, http.StatusTooManyRequests, "rate_limited")
	fail.Unequal(t, rec.Header().Get("Retry-After"), "4", "Retry-After")
}
