package payment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"seckill/internal/order"
)

// Lifecycle moves orders when money arrives or goes back. [order.Lifecycle] implements it.
type Lifecycle interface {
	Settle(ctx context.Context, r order.Receipt) (order.Settlement, error)
	Refund(ctx context.Context, id int64) (order.Order, error)
}

// Store keeps the refunds and payments that the provider has still to settle. database.Lifecycle implements it.
type Store interface {
	// DueRefunds, MarkRefunded and UnmatchedPayments are those of [order.LifecycleStore].
	DueRefunds(ctx context.Context, after string, limit int) ([]order.RefundRequest, error)
	MarkRefunded(ctx context.Context, paymentID string) error
	UnmatchedPayments(ctx context.Context) (payments, cents int64, err error)
	// DueLookups lists up to limit payments that are to be looked up now, the longest due first.
	DueLookups(ctx context.Context, now time.Time, limit int) ([]order.Lookup, error)
	// PostponeLookup makes a look-up due at another time, the zero time for never, and reports whether it was still due
	// when it was before.
	PostponeLookup(ctx context.Context, one order.Lookup, until time.Time) (bool, error)
}

// Observer is told what happens. All its methods may be called by several goroutines.
type Observer interface {
	// Event is a webhook: its type, or "other", and what became of it, see [Settlements.Receive].
	Event(kind, result string)
	// Settled is money that was settled for the first time.
	Settled(outcome order.Outcome, cents int64)
	// Refund is an attempt to give money back, Lookup one to look a payment up; nil means that it succeeded.
	Refund(err error)
	Lookup(err error)
	// Unmatched is the money that belongs to no order, Due are the refunds that are yet to be carried out.
	Unmatched(payments, cents int64)
	Due(refunds int)
}

// SettlementsConfig is what [Settlements] need. Everything is required.
type SettlementsConfig struct {
	Webhooks  *Webhooks
	Provider  *Provider
	Lifecycle Lifecycle
	Store     Store
	Observer  Observer
	Log       *slog.Logger
}

// Settlements bring what the provider knows to the orders, and the refunds of the orders to the provider. Any number of
// processes may do so at the same time.
type Settlements struct {
	SettlementsConfig
	retries retries
}

// NewSettlements returns Settlements. Nothing is refunded and looked up before [Settlements.Run].
func NewSettlements(c SettlementsConfig) (*Settlements, error) {
	if c.Webhooks == nil || c.Provider == nil || c.Lifecycle == nil || c.Store == nil || c.Observer == nil || c.Log == nil {
		return nil, errors.New("payment: incomplete configuration")
	}
	return &Settlements{SettlementsConfig: c, retries: newRetries(maxRetries)}, nil
}

// CheckHeader returns an [ErrForged] if the headers alone show that Receive will not accept a webhook. Its body need
// not be read then.
func (s *Settlements) CheckHeader(header http.Header) error {
	err := CheckHeader(header)
	if err != nil {
		s.Observer.Event("other", resultOf(err))
	}
	return err
}

// Receive takes a webhook. After nil the provider may forget it; after an error it has to send it again. The errors are
// [ErrForged], [ErrStale], [ErrMalformed] and those of package order.
//
// Two facts are taken from an event, whatever its type: whether the payment was paid, and whether all of it was given
// back. Both stay true, so an event that comes twice, late or before an earlier one does no harm.
func (s *Settlements) Receive(ctx context.Context, header http.Header, body []byte) error {
	kind := "other"
	_, err := s.Webhooks.Verify(header, body)
	if err == nil {
		var e Event
		if e, err = ParseEvent(body); err == nil {
			switch e.Type {
			case EventPaid, EventRefused, EventExpired, EventRefunded:
				kind, err = e.Type, s.apply(ctx, e.Data)
			}
		}
	}
	s.Observer.Event(kind, resultOf(err))
	return err
}

// The results of an event.
const (
	resultOK          = "ok"
	resultForged      = "forged"
	resultStale       = "stale"
	resultMalformed   = "malformed"
	resultUnavailable = "unavailable"
)

// EventKinds and EventResults are the labels of [Observer.Event].
func EventKinds() []string {
	return []string{EventPaid, EventRefused, EventExpired, EventRefunded, "other"}
}

// EventResults are the results of [Observer.Event].
func EventResults() []string {
	return []string{resultOK, resultForged, resultStale, resultMalformed, resultUnavailable}
}

func resultOf(err error) string {
	switch {
	case err == nil:
		return resultOK
	case errors.Is(err, ErrForged):
		return resultForged
	case errors.Is(err, ErrStale):
		return resultStale
	case errors.Is(err, ErrMalformed):
		return resultMalformed
	}
	return resultUnavailable
}

// apply brings what the provider knows of a payment to its order.
func (s *Settlements) apply(ctx context.Context, now Payment) error {
	if err := now.Check(); err != nil {
		return err
	}
	if now.Status != StatusPaid {
		return nil // the time to pay decides what becomes of the order
	}
	r := s.Provider.receipt(now)
	settled, err := s.Lifecycle.Settle(ctx, r)
	if err != nil {
		return fmt.Errorf("settle the payment %s: %w", now.ID, err)
	}
	if !settled.Repeated {
		s.Observer.Settled(settled.Outcome, r.AmountCents)
	}
	if now.RefundedCents < now.AmountCents {
		return nil
	}
	// All of it went back. If nobody here has asked for that, the order follows now.
	if settled.Outcome.Bought() {
		if _, err := s.Lifecycle.Refund(ctx, r.OrderID); err != nil && !errors.Is(err, order.ErrNotRefundable) {
			return fmt.Errorf("the order of the refunded payment %s: %w", now.ID, err)
		}
	}
	return s.Store.MarkRefunded(ctx, now.ID)
}
