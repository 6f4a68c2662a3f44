package httpapi_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/httpapi"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// hold sends requests of users that stay in progress until release is called.
func (r *fixture) hold(t *testing.T, method, path string, users ...int) (release func()) {
	t.Helper()
	free := make(chan struct{})
	r.orders.place = func(ctx context.Context, req order.Request) (order.Order, error) {
		if slices.Contains(users, int(req.UserID)) {
			<-free
		}
		return order.Order{ID: 7, VoucherID: req.VoucherID, UserID: req.UserID, Status: order.Confirmed}, nil
	}
	r.orders.hold = func() { <-free }
	for _, user := range users {
		go r.serve(context.Background(), method, path, fmt.Sprint("X-User-ID: ", user))
	}
	synctest.Wait()
	return func() {
		close(free)
		synctest.Wait()
		r.orders.place, r.orders.hold = nil, nil
	}
}

// A request beyond a limit is rejected at once. Requests that the limit does not concern are served.
func TestLimits(t *testing.T) {
	const placing, reading = "/api/v1/vouchers/1/orders", "/api/v1/orders"
	for _, c := range []struct {
		name         string
		limits       httpapi.Limits
		method, path string
		users        []int // at work
		user         int   // the user of the next request
		status       int   // what they are told, or the handler's own answer
		other        call  // is served all the same
	}{
		{"orders", httpapi.Limits{Orders: 2}, "POST", placing, []int{1, 2}, 3, 503, call{"GET", "/api/v1/vouchers", "", nil}},
		{"orders of a user", httpapi.Limits{OrdersPerUser: 2}, "POST", placing, []int{1, 1}, 1, 429, call{"GET", "/api/v1/vouchers", "", nil}},
		{"orders of another", httpapi.Limits{OrdersPerUser: 2}, "POST", placing, []int{1, 1}, 2, 201, call{"GET", "/api/v1/vouchers", "", nil}},
		{"reads", httpapi.Limits{Requests: 2, Orders: 1}, "GET", reading, []int{1, 2}, 3, 503, call{"POST", "/api/v1/vouchers/9/orders", "", []string{"X-User-ID: 1"}}},
		{"reads of a user", httpapi.Limits{RequestsPerUser: 2}, "GET", reading, []int{1, 1}, 1, 429, call{"GET", "/api/v1/orders/8", "", []string{"X-User-ID: 2"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFixture(t, lab, func(cfg *httpapi.Config, _ *fixture) { cfg.Limits = c.limits })
				release := r.hold(t, c.method, c.path, c.users...)
				rec := r.serve(t.Context(), c.method, c.path, fmt.Sprint("X-User-ID: ", c.user))
				fail.Unequal(t, rec.Code, c.status, "beyond the limit: %s", rec.Body)
				if shed := c.status == 503 || c.status == 429; shed && (rec.Header().Get("Retry-After") != "1" || rec.Header().Get("Connection") != "close") {
					t.Errorf("headers %v", rec.Header())
				}
				release()
				for range 3 {
					if rec := r.do(t, c.other); rec.Code == 503 || rec.Code == 429 {
						t.Errorf("another client: %d %s", rec.Code, rec.Body)
					}
					if rec := r.serve(t.Context(), c.method, c.path, fmt.Sprint("X-User-ID: ", c.user)); rec.Code == 503 || rec.Code == 429 {
						t.Errorf("afterwards: %d %s", rec.Code, rec.Body)
					}
				}
			})
		})
	}
}

// A wait beyond the limit is answered at once, with the current state of the order.
func TestWaitsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, lab, func(cfg *httpapi.Config, _ *fixture) {
			cfg.Limits = httpapi.Limits{WaitsPerUser: 2, RequestsPerUser: 1}
		})
		r.orders.orders = []order.Order{{ID: 7, VoucherID: 1, UserID: 42, Status: order.Pending}}
		r.orders.await = func(_ context.Context, _ order.Order, limit time.Duration) error {
			simulate.Sleep(limit)
			return nil
		}
		const path = "/api/v1/orders/7?wait=5s"
		for range 2 { // neither counts as the one request that the user may have at work
			go r.serve(context.Background(), "GET", path, "X-User-ID: 42")
			synctest.Wait()
		}
		begun := time.Now()
		rec := r.serve(t.Context(), "GET", path, "X-User-ID: 42")
		if rec.Code != 200 || !strings.Contains(rec.Body.String(), `"pending"`) || rec.Header().Get("Retry-After") == "" || time.Since(begun) > 0 {
			t.Errorf("%d %s after %v", rec.Code, rec.Body, time.Since(begun))
		}
		simulate.Sleep(5 * time.Second)
		synctest.Wait()
		r.serve(t.Context(), "GET", path, "X-User-ID: 42")
		if took := time.Since(begun); took < 10*time.Second {
			t.Errorf("afterwards nobody may wait: %v", took)
		}
	})
}
