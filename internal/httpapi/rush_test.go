package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

func TestRush(t *testing.T) {
	r, id := onSale(t)
	r.orders.place = func(_ context.Context, req order.Request) (order.Order, error) {
		if req.UserID%2 == 0 {
			return order.Order{}, voucher.ErrSoldOut
		}
		return order.Order{ID: 7, VoucherID: req.VoucherID, UserID: req.UserID, Status: order.Confirmed}, nil
	}
	path := fmt.Sprintf("/api/v1/vouchers/%d/rush", id)
	rec := r.do(t, call{"POST", path, `{"buyers":300}`, nil})
	var got struct {
		Buyers, Sent int
		Outcomes     map[string]int
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != http.StatusOK {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	if got.Sent != 300 || got.Outcomes["confirmed"] != 150 || got.Outcomes["sold_out"] != 150 {
		t.Errorf("%+v", got)
	}
	users := map[int64]bool{}
	for _, o := range r.orders.placed {
		users[o.UserID] = true
	}
	fail.Unequal(t, len(users), 300, "different buyers")
	for _, body := range []string{`{"buyers":0}`, `{"buyers":5001}`, `{"buyers":-1}`, `{}`, `{"buyers":1,"more":1}`} {
		wantProblem(t, r.do(t, call{"POST", path, body, nil}), http.StatusBadRequest, "invalid_request")
	}
	wantProblem(t, r.do(t, call{"POST", "/api/v1/vouchers/1/rush", `{"buyers":1}`, nil}), http.StatusNotFound, "voucher_not_found")
}

// While a rush runs there is no other.
func TestRushIsBounded(t *testing.T) {
	r, id := onSale(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	r.orders.place = func(context.Context, order.Request) (order.Order, error) {
		close(arrived)
		<-release
		return order.Order{}, voucher.ErrSoldOut
	}
	path := fmt.Sprintf("/api/v1/vouchers/%d/rush", id)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.do(t, call{"POST", path, `{"buyers":1}`, nil})
	}()
	<-arrived
	wantProblem(t, r.do(t, call{"POST", path, `{"buyers":1}`, nil}), http.StatusConflict, "busy")
	close(release)
	<-done
}
