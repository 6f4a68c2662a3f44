package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit/fail"
)

// One request waits for many orders: it is answered when one of them changes, and the waits for the others end.
func TestOrdersThatAreFollowed(t *testing.T) {
	unpaid := func(id int64) order.Order {
		return order.Order{ID: id, VoucherID: 1, UserID: 42, Status: order.Unpaid, CreatedAt: start()}
	}
	paid := unpaid(8)
	paid.Status = order.Paid
	for _, c := range []struct {
		query, states string
		waits         bool
	}{
		{"?watch=7:unpaid,8:unpaid", "7 unpaid 8 unpaid", false},
		{"?watch=7:unpaid,8:unpaid&wait=2s", "7 unpaid 8 paid", true},
		{"?watch=8:unpaid,7:pending&wait=2s", "8 unpaid 7 unpaid", false},          // one has passed that state
		{"?watch=7:unpaid,9:pending,8:unpaid&wait=2s", "7 unpaid 8 unpaid", false}, // one is lost
	} {
		r := newFixture(t, lab)
		r.orders.orders = []order.Order{unpaid(8), unpaid(7)}
		waited, ended := false, make(chan struct{})
		r.lifecycle.await = func(ctx context.Context, o order.Order, limit time.Duration) error {
			if o.ID == 7 {
				<-ctx.Done()
				close(ended)
				return ctx.Err()
			}
			waited = limit == 2*time.Second
			r.orders.orders = []order.Order{paid, unpaid(7)}
			return nil
		}
		rec := r.do(t, call{"GET", "/api/v1/orders" + c.query, "", []string{"X-User-ID: 42"}})
		fail.Unequal(t, rec.Code, http.StatusOK, "%s", c.query)
		var told []string
		for one := range strings.SplitSeq(rec.Body.String(), `"order_id":"`) {
			if id, rest, ok := strings.Cut(one, `","voucher_id":"1","status":"`); ok {
				status, _, _ := strings.Cut(rest, `"`)
				told = append(told, id, status)
			}
		}
		fail.Unequal(t, strings.Join(told, " "), c.states, "%s", c.query)
		fail.Unequal(t, waited, c.waits, "%s: it waits", c.query)
		if c.waits {
			<-ended
		}
	}
	r := newFixture(t, lab)
	for _, wrong := range []string{"", "7", "7:", "7:sold", "x:paid", "7:paid,", "7:paid" + strings.Repeat(",7:paid", 20)} {
		r.undescribed = true
		rec := r.do(t, call{"GET", "/api/v1/orders?watch=" + wrong, "", []string{"X-User-ID: 42"}})
		fail.Unequal(t, rec.Code, http.StatusBadRequest, "watch=%s", wrong)
	}
}
