package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"seckill/internal/order"
)

// orderJSON is an order as a client sees it.
type orderJSON struct {
	OrderID   string `json:"order_id"`
	VoucherID string `json:"voucher_id"`
	// UserID is shown to an administrator only.
	UserID string       `json:"user_id,omitempty"`
	Status order.Status `json:"status"`
	// CreatedAt is omitted for a pending order whose time is not known yet.
	CreatedAt time.Time `json:"created_at,omitzero"`
}

func newOrderJSON(o order.Order) orderJSON {
	return orderJSON{
		OrderID: formatID(o.ID), VoucherID: formatID(o.VoucherID),
		Status: o.Status, CreatedAt: o.CreatedAt.UTC(),
	}
}

// placeOrder is POST /api/v1/vouchers/{id}/orders.
func (a *API) placeOrder(ctx context.Context, r *request) (reply, error) {
	if a.deps.Limit != nil {
		if wait, ok := a.deps.Limit(r.user); !ok {
			return reply{}, &rateLimitedError{wait}
		}
	}
	voucherID, err := r.pathID()
	if err != nil {
		return reply{}, err
	}
	pass, err := r.headerOnce("Room-Pass")
	if err != nil {
		return reply{}, err
	}
	if err := r.readNothing(); err != nil {
		return reply{}, err
	}
	return a.runOnce(ctx, r, nil, idempotentOperation{
		keepsKey: func(ctx context.Context) (bool, error) { return a.deps.Orders.KeepsKeys(ctx, voucherID) },
		cachedRefusal: func(ctx context.Context) error {
			return a.deps.Orders.Refusal(ctx, order.Request{VoucherID: voucherID, UserID: r.user, Pass: pass})
		},
		run: func(ctx context.Context, at attempt) (reply, error) {
			o, err := a.deps.Orders.Place(ctx, order.Request{
				VoucherID: voucherID, UserID: r.user, ID: at.id, Resumed: at.resumed,
				Key: at.key, Pass: pass, MayLook: func() error { return a.allowLookup(r.user) },
			})
			if err != nil {
				return reply{}, err
			}
			out := a.orderReply(r, o)
			if o.Repeated {
				out.replayed, out.outcome = true, "replayed"
			}
			return out, nil
		},
	})
}

// orderReply returns the answer to an order. The JSON is written by hand, since it is the most frequent answer and
// contains nothing to escape.
func (a *API) orderReply(r *request, o order.Order) reply {
	const path = "/api/v1/orders/"
	status := http.StatusCreated
	if !o.Status.Persisted() {
		status = http.StatusAccepted // also if a resumed request finds its order rejected by now
	}
	location := string(strconv.AppendInt(append(r.scratch[:0], path...), o.ID, 10))
	body := append(r.scratch[:0], `{"order_id":"`...)
	body = append(body, location[len(path):]...)
	body = append(body, `","status":"`...)
	body = append(body, o.Status...)
	body = append(body, `"}`...)
	return reply{status: status, contentType: a.problems.json, location: location, body: body, outcome: string(o.Status)}
}

// showOrder is GET /api/v1/orders/{id}. With ?wait= it waits for the next state. A client that knows a state says so
// with ?state=, and does not wait if that has passed: an order may be pending and unpaid within a millisecond.
func (a *API) showOrder(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID()
	if err != nil {
		return reply{}, err
	}
	wait, err := r.queryWait()
	if err != nil {
		return reply{}, err
	}
	known, err := r.queryState()
	if err != nil {
		return reply{}, err
	}
	if err := a.allowLookup(r.user); err != nil {
		return reply{}, err
	}
	o, err := a.lookupOrder(ctx, r, id, wait)
	if err == nil && wait > 0 && o.Status.Changes() && (known == "" || known == o.Status) {
		if r.enter(a.limits.waits) != nil { // answer with the current state
			out, err := a.renderDetailed(ctx, http.StatusOK, o)
			out.retryAfter = a.problems.seconds[1]
			return out, err
		}
		o, err = a.awaitOrder(ctx, o, wait)
	}
	if err != nil {
		return reply{}, err
	}
	return a.renderDetailed(ctx, http.StatusOK, o)
}

// lookupOrder returns an order, within the deadline of a read. The wait is added to that deadline.
func (a *API) lookupOrder(ctx context.Context, r *request, id int64, wait time.Duration) (order.Order, error) {
	if wait > 0 {
		var cancel context.CancelFunc
		r.deadline.Extend(wait)
		ctx, cancel = context.WithTimeout(ctx, readingTimeout)
		defer cancel()
	}
	return a.deps.Orders.Order(ctx, r.user, id)
}

// awaitOrder waits for the next state of an order and returns its state after that. A stop of the service ends the
// wait: the client may ask another process.
func (a *API) awaitOrder(ctx context.Context, o order.Order, wait time.Duration) (order.Order, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.waits, cancel)()
	await := a.deps.Lifecycle.Await
	if o.Status == order.Pending {
		await = a.deps.Orders.Await
	}
	if err := await(waiting, o, wait); err != nil && a.waits.Err() == nil {
		return order.Order{}, err
	}
	return a.deps.Orders.Order(ctx, o.UserID, o.ID)
}

// ordersJSON is a page of orders, newest first.
type ordersJSON struct {
	Orders []orderJSON `json:"orders"`
	// NextBefore is the value of ?before= for the next page; absent on the last page.
	NextBefore string `json:"next_before,omitempty"`
}

// listOrders is GET /api/v1/orders.
func (a *API) listOrders(ctx context.Context, r *request) (reply, error) {
	if all, err := r.queryFollowed(); err != nil || all != nil {
		if err != nil {
			return reply{}, err
		}
		return a.followOrders(ctx, r, all)
	}
	page, err := r.queryPage("before", newest)
	if err != nil {
		return reply{}, err
	}
	if err := a.allowLookup(r.user); err != nil {
		return reply{}, err
	}
	// One more order than the page holds shows whether there is another page.
	orders, err := a.deps.Orders.OrdersOf(ctx, r.user, page.from, page.limit+1)
	if err != nil {
		return reply{}, err
	}
	return a.render(http.StatusOK, newOrdersJSON(page, orders, newOrderJSON))
}

func newOrdersJSON(page page, orders []order.Order, newJSON func(order.Order) orderJSON) ordersJSON {
	out := ordersJSON{Orders: []orderJSON{}}
	if len(orders) > page.limit {
		orders = orders[:page.limit]
		out.NextBefore = formatID(orders[page.limit-1].ID)
	}
	for _, o := range orders {
		out.Orders = append(out.Orders, newJSON(o))
	}
	return out
}

// listVoucherOrders is GET /api/v1/vouchers/{id}/orders.
func (a *API) listVoucherOrders(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID()
	if err != nil {
		return reply{}, err
	}
	page, err := r.queryPage("before", newest)
	if err != nil {
		return reply{}, err
	}
	if _, err := a.deps.Vouchers.Voucher(ctx, id); err != nil {
		return reply{}, err
	}
	orders, err := a.deps.Orders.OrdersOfVoucher(ctx, id, page.from, page.limit+1)
	if err != nil {
		return reply{}, err
	}
	return a.render(http.StatusOK, newOrdersJSON(page, orders, func(o order.Order) orderJSON {
		out := newOrderJSON(o)
		out.UserID = formatID(o.UserID)
		return out
	}))
}

// auditJSON is the audit of a sale. Stock is what can still be sold. Under the admission flow that is the gate's stock,
// and DatabaseStock is the database's: InitialStock less DatabaseStock must be Orders.
type auditJSON struct {
	InitialStock    int64 `json:"initial_stock"`
	Stock           int64 `json:"stock"`
	Orders          int64 `json:"orders"`
	DistinctUsers   int64 `json:"distinct_users"`
	Oversold        int64 `json:"oversold"`
	DuplicateOrders int64 `json:"duplicate_orders"`
	Unaccounted     int64 `json:"unaccounted"`
	Pending         int64 `json:"pending"`
	Balanced        bool  `json:"balanced"`

	DatabaseStock *int64 `json:"database_stock,omitempty"`
	// Returning was given back in the database, and is not in Stock yet.
	Returning int64 `json:"returning,omitempty"`
}

// audit is GET /api/v1/vouchers/{id}/audit.
func (a *API) audit(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID()
	if err != nil {
		return reply{}, err
	}
	au, err := a.deps.Orders.Audit(ctx, id)
	if err != nil {
		return reply{}, err
	}
	return a.render(http.StatusOK, newAuditJSON(au))
}

func newAuditJSON(au order.Audit) auditJSON {
	out := auditJSON{
		InitialStock: au.InitialStock, Stock: au.Remaining(), Orders: au.Orders, DistinctUsers: au.DistinctUsers,
		Oversold: au.Oversold(), DuplicateOrders: au.DuplicateOrders(), Unaccounted: au.Unaccounted(),
		Pending: au.InFlight(), Returning: au.Returning(), Balanced: au.Balanced(),
	}
	if au.Gate != nil {
		out.DatabaseStock = &au.Stock
	}
	return out
}
