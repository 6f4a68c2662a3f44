package eventlog

import (
	"context"
	"strconv"

	"seckill/internal/order"
)

// OrderService places and shows orders; [order.Service] implements it.
type OrderService interface {
	Place(ctx context.Context, req order.Request) (order.Order, error)
	Order(ctx context.Context, userID, id int64) (order.Order, error)
	OrdersOf(ctx context.Context, userID, before int64, limit int) ([]order.Order, error)
	Audit(ctx context.Context, voucherID int64) (order.Audit, error)
}

var _ OrderService = (*order.Service)(nil)

// Orders wraps s and puts the buyer into the context of each order, from where the events of its lock and its
// transaction take their Who, Attempt, Voucher and User.
func Orders(s OrderService, rec *Recorder) OrderService { return &orders{s, rec} }

type orders struct {
	OrderService
	rec *Recorder
}

// Place implements [OrderService].
func (o *orders) Place(ctx context.Context, req order.Request) (order.Order, error) {
	return o.OrderService.Place(context.WithValue(ctx, actorKey{}, actor{
		who:     "buyer " + strconv.FormatInt(req.UserID, 10),
		attempt: o.rec.attempts.Add(1), voucher: req.VoucherID, user: req.UserID,
	}), req)
}
