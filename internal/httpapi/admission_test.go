package httpapi_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/httpapi"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
)

// pendingOrder is order 7 of user 42.
func pendingOrder() order.Order {
	return order.Order{ID: 7, VoucherID: 1, UserID: 42, Status: order.Pending}
}

func TestAcceptedOrder(t *testing.T) {
	for status, want := range map[order.Status]int{
		order.Pending: http.StatusAccepted, order.Confirmed: http.StatusCreated, order.Rejected: http.StatusAccepted,
	} {
		r := newFixture(t, lab)
		r.orders.place = func(_ context.Context, req order.Request) (order.Order, error) {
			o := order.Order{ID: req.ID, VoucherID: 1, UserID: 42, Status: status}
			r.orders.orders = []order.Order{o}
			return o, nil
		}
		rec := r.do(t, keyed("k"))
		body := `{"order_id":"1001","status":"` + string(status) + `"}`
		if rec.Code != want || rec.Body.String() != body || rec.Header().Get("Location") != "/api/v1/orders/1001" {
			t.Errorf("%s: %d %q %s", status, rec.Code, rec.Header().Get("Location"), rec.Body)
		}
		sameAnswer(t, rec, r.do(t, keyed("k")))
		fail.Unequal(t, r.metric(t, "seckill_orders_total", string(status)), 1, "%s was counted", status)
	}
}

func TestWaitForAnOrder(t *testing.T) {
	const path = "/api/v1/orders/7?wait=2s"
	user := []string{"X-User-ID: 42"}
	// A client that knows an older state is told the newer one at once.
	for _, c := range []struct {
		query         string
		status, after order.Status // after "": nobody waits
	}{
		{"?wait=2s", order.Pending, order.Confirmed},
		{"?wait=2s&state=pending", order.Pending, order.Confirmed},
		{"?wait=2s", order.Unpaid, order.Paid},
		{"?wait=2s&state=unpaid", order.Unpaid, order.Paid},
		{"?wait=2s&state=pending", order.Unpaid, ""},
		{"", order.Pending, ""},
		{"?wait=0s", order.Pending, ""},
		{"?wait=2s", order.Rejected, ""},
	} {
		t.Run(string(c.status)+c.query, func(t *testing.T) {
			r := newFixture(t, lab)
			o := order.Order{ID: 7, VoucherID: 1, UserID: 42, Status: c.status, CreatedAt: start()}
			r.orders.orders = []order.Order{o}
			await := func(_ context.Context, of order.Order, limit time.Duration) error {
				if of != o || limit != 2*time.Second || c.after == "" {
					t.Errorf("waits %v for %+v", limit, of)
				}
				r.orders.orders[0].Status = c.after
				return nil
			}
			r.orders.await, r.lifecycle.await = await, await
			want := fmt.Sprintf(`{"order_id":"7","voucher_id":"1","status":%q,"created_at":"2030-01-02T03:04:05Z"}`, cmp.Or(c.after, c.status))
			if rec := r.do(t, call{"GET", "/api/v1/orders/7" + c.query, "", user}); rec.Code != http.StatusOK || rec.Body.String() != want {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
			wantProblem(t, r.do(t, call{"GET", path, "", []string{"X-User-ID: 43"}}), http.StatusNotFound, "order_not_found")
		})
	}
	t.Run("a failure to wait is an error", func(t *testing.T) {
		r := newFixture(t, lab)
		r.orders.orders = []order.Order{pendingOrder()}
		r.orders.await = func(context.Context, order.Order, time.Duration) error { return context.DeadlineExceeded }
		wantProblem(t, r.do(t, call{"GET", path, "", user}), http.StatusServiceUnavailable, "unavailable")
	})
	for name, end := range map[string]func(r *fixture, cancel context.CancelFunc){
		"the client hangs up": func(_ *fixture, cancel context.CancelFunc) { cancel() },
		"the service stops":   func(r *fixture, _ context.CancelFunc) { r.api.EndWaits() },
	} {
		t.Run("until "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFixture(t, lab)
				r.orders.orders = []order.Order{pendingOrder()}
				r.orders.await = func(ctx context.Context, _ order.Order, _ time.Duration) error {
					<-ctx.Done()
					return ctx.Err()
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				answer := make(chan *httptest.ResponseRecorder)
				go func() { answer <- r.serve(ctx, "GET", path, "X-User-ID: 42") }()
				synctest.Wait()
				end(r, cancel)
				rec := <-answer
				if gone := ctx.Err() != nil; gone == strings.Contains(rec.Body.String(), `"status":"pending"`) {
					t.Errorf("%d %s", rec.Code, rec.Body)
				}
			})
		})
	}
}

func TestAuditOfAdmission(t *testing.T) {
	r := newFixture(t, lab)
	// 60 persisted, 25 in flight, 15 remaining; the database's stock and orders agree.
	r.orders.audit = order.Audit{InitialStock: 100, Stock: 40, Orders: 60, DistinctUsers: 60, Gate: &order.GateAudit{Stock: 15, Pending: 25}}
	const want = `{"initial_stock":100,"stock":15,"orders":60,"distinct_users":60,"oversold":0,"duplicate_orders":0,` +
		`"unaccounted":0,"pending":25,"balanced":true,"database_stock":40}`
	if rec := r.do(t, call{"GET", "/api/v1/vouchers/1/audit", "", nil}); rec.Code != http.StatusOK || rec.Body.String() != want {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	r.orders.err = errors.Join(order.ErrUnavailable)
	wantProblem(t, r.do(t, call{"GET", "/api/v1/vouchers/1/audit", "", nil}), http.StatusServiceUnavailable, "unavailable")
}

func TestRateLimit(t *testing.T) {
	waits := map[int64]time.Duration{42: 1500 * time.Millisecond, 43: time.Hour}
	r := newFixture(t, lab, func(_ *httpapi.Config, r *fixture) {
		r.limit = func(user int64) (time.Duration, bool) { return waits[user], waits[user] == 0 }
	})
	for user, retryAfter := range map[string]string{"42": "2", "43": "5"} {
		place := call{"POST", "/api/v1/vouchers/1/orders", "", []string{"X-User-ID: " + user, "Idempotency-Key: k"}}
		rec := r.do(t, place)
		wantProblem(t, rec, http.StatusTooManyRequests, "rate_limited")
		fail.Unequal(t, rec.Header().Get("Retry-After"), retryAfter, "Retry-After")
	}
	fail.Unequal(t, len(r.orders.requests()), 0, "orders were placed")
	clear(waits)
	r.want(t, call{"POST", "/api/v1/vouchers/1/orders", "", []string{"X-User-ID: 42", "Idempotency-Key: k"}}, http.StatusCreated)
}
