package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"seckill/internal/order"
)

// Lifecycle moves orders through their states after they were placed. [order.Lifecycle] implements it.
type Lifecycle interface {
	// Cancel cancels a user's unpaid order, or returns an [order.ErrNotCancellable].
	Cancel(ctx context.Context, userID, id int64) (order.Order, error)
	// Pay returns the payment of a user's order, the same one each time. returnTo is where the buyer goes back to.
	Pay(ctx context.Context, userID, id int64, returnTo string) (order.Payment, error)
	// Refund begins to refund a paid order, or returns an [order.ErrNotRefundable].
	Refund(ctx context.Context, id int64) (order.Order, error)
	// Details returns what an order has besides its state.
	Details(ctx context.Context, o order.Order) (order.Details, error)
	// Await waits until an order that waits for money has another state, or the limit has passed.
	Await(ctx context.Context, o order.Order, limit time.Duration) error
}

var _ Lifecycle = (*order.Lifecycle)(nil)

// paymentJSON is what a buyer is told to pay.
type paymentJSON struct {
	PaymentID string    `json:"payment_id"`
	PayURL    string    `json:"pay_url"`
	PayBy     time.Time `json:"pay_by"`
}

// payOrder is POST /api/v1/orders/{id}/payment.
func (a *API) payOrder(ctx context.Context, r *request) (reply, error) {
	id, err := a.orderToMove(r)
	if err != nil {
		return reply{}, err
	}
	returnTo := ""
	if page := pageOrigin(r.Request); page != "" && a.deps.Site != nil {
		returnTo = page + "/#order=" + formatID(id)
	}
	p, err := a.deps.Lifecycle.Pay(ctx, r.user, id, returnTo)
	if err != nil {
		return reply{}, err
	}
	if page, ours := strings.CutPrefix(p.URL, a.deps.PaymentPagesURL+"/"); ours && a.deps.PaymentPages != nil {
		p.URL = cmp.Or(pageOrigin(r.Request), hostOrigin(r.Request)) + paymentPages + "/" + page
	}
	return a.render(http.StatusCreated, paymentJSON{PaymentID: p.ID, PayURL: p.URL, PayBy: p.PayBy.UTC()})
}

// cancelOrder is POST /api/v1/orders/{id}/cancel. A cancelled order stays in the database, and its user may order
// again, so a user may cancel a number of orders only.
func (a *API) cancelOrder(ctx context.Context, r *request) (reply, error) {
	id, err := a.orderToMove(r)
	if err != nil {
		return reply{}, err
	}
	if a.deps.Cancels != nil {
		if wait, ok := a.deps.Cancels.Allow(r.user); !ok {
			return reply{}, &rateLimitedError{wait}
		}
	}
	o, err := a.deps.Lifecycle.Cancel(ctx, r.user, id)
	if err != nil {
		if a.deps.Cancels != nil {
			a.deps.Cancels.Return(r.user)
		}
		return reply{}, err
	}
	return a.renderDetailed(ctx, http.StatusOK, o)
}

// refundOrder is POST /api/v1/orders/{id}/refund.
func (a *API) refundOrder(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID()
	if err != nil {
		return reply{}, err
	}
	if err := r.readNothing(); err != nil {
		return reply{}, err
	}
	o, err := a.deps.Lifecycle.Refund(ctx, id)
	if err != nil {
		return reply{}, err
	}
	return a.renderDetailed(ctx, http.StatusAccepted, o)
}

// orderToMove reads a user's request about one order. It is charged like a look-up, which it begins with.
func (a *API) orderToMove(r *request) (int64, error) {
	id, err := r.pathID()
	if err != nil {
		return 0, err
	}
	if err := r.readNothing(); err != nil {
		return 0, err
	}
	return id, a.allowLookup(r.user)
}

// transitionJSON is an entry of an order's history.
type transitionJSON struct {
	Status order.Status `json:"status"`
	At     time.Time    `json:"at"`
}

// receivedJSON is money that was received for an order. Refund is "due" or "done" for money that goes back.
type receivedJSON struct {
	PaymentID   string        `json:"payment_id"`
	AmountCents int64         `json:"amount_cents"`
	Outcome     order.Outcome `json:"outcome"`
	Refund      string        `json:"refund,omitempty"`
}

// detailedJSON is an order with what it has besides its state. An order that asks for no payment has nothing more.
type detailedJSON struct {
	orderJSON
	PayBy    time.Time        `json:"pay_by,omitzero"`
	PaidAt   time.Time        `json:"paid_at,omitzero"`
	History  []transitionJSON `json:"history,omitempty"`
	Payments []receivedJSON   `json:"payments,omitempty"`
}

// renderDetailed returns an order with its details.
func (a *API) renderDetailed(ctx context.Context, status int, o order.Order) (reply, error) {
	d, err := a.detailed(ctx, o)
	if err != nil {
		return reply{}, err
	}
	return a.render(status, d)
}

func (a *API) detailed(ctx context.Context, o order.Order) (detailedJSON, error) {
	d, err := a.deps.Lifecycle.Details(ctx, o)
	if err != nil {
		return detailedJSON{}, err
	}
	out := detailedJSON{orderJSON: newOrderJSON(o), PayBy: d.PayBy, PaidAt: d.PaidAt}
	for _, t := range d.History {
		out.History = append(out.History, transitionJSON{Status: t.Status, At: t.At})
	}
	for _, p := range d.Payments {
		refund := ""
		switch {
		case p.RefundDue:
			refund = "due"
		case !p.RefundedAt.IsZero():
			refund = "done"
		}
		out.Payments = append(out.Payments, receivedJSON{PaymentID: p.PaymentID, AmountCents: p.AmountCents, Outcome: p.Outcome, Refund: refund})
	}
	return out, nil
}
