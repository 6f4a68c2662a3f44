package httpapi

import (
	"context"
	"net/http"

	"seckill/internal/payment"
)

// PaymentEvents takes what the payment provider sends. [payment.Settlements] implements it.
type PaymentEvents interface {
	// CheckHeader returns the error of Receive if the headers are enough to know it.
	CheckHeader(header http.Header) error
	// Receive verifies a webhook and does what follows from it. After an error the provider sends it again.
	Receive(ctx context.Context, header http.Header, body []byte) error
}

var _ PaymentEvents = (*payment.Settlements)(nil)

// paymentEventsRoute is where the provider sends its webhooks.
const paymentEventsRoute = "/api/v1/payments/events"

// receiveEvent is POST /api/v1/payments/events. The signature is the caller's identity, so the route is open to anyone.
// Only the body shows whether it is right, and anyone may send that slowly: so the route has limits of its own, and
// takes no slot from other requests.
func (a *API) receiveEvent(ctx context.Context, r *request) (reply, error) {
	if a.deps.Events == nil {
		return reply{}, errNoRoute
	}
	if err := a.deps.Events.CheckHeader(r.Header); err != nil {
		return reply{}, err
	}
	if err := r.enter(a.limits.events); err != nil {
		return reply{}, err
	}
	body, err := r.readJSON()
	if err != nil {
		return reply{}, err
	}
	if err := a.deps.Events.Receive(ctx, r.Header, body); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent, outcome: "ok"}, nil
}
