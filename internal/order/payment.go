package order

import (
	"context"
	"errors"
	"time"
)

// Payment is what a buyer is told to pay, and where.
type Payment struct {
	// ID is the provider's, at most 64 characters. URL is the page on which the buyer pays, at most 500.
	// Both are empty while the provider was not asked yet.
	ID, URL            string
	OrderID, VoucherID int64
	AmountCents        int64
	PayBy              time.Time
}

// PaymentRequest asks a provider for a payment.
type PaymentRequest struct {
	// Key is the request's idempotency key: the same key always gets the same payment.
	Key         string
	OrderID     int64
	AmountCents int64
	PayBy       time.Time
	// ReturnTo is the page to which the buyer goes back, at most 500 characters; "" for none.
	ReturnTo string
}

// RefundRequest asks a provider to return the whole amount of a payment.
type RefundRequest struct {
	// Key is the request's idempotency key: however often it is sent, the money is returned once.
	Key         string
	PaymentID   string
	AmountCents int64
}

// Errors of a [PaymentProvider].
var (
	// ErrPaymentUnavailable says that the provider gave no answer, so that the outcome is unknown. The same
	// call with the same key may be repeated.
	ErrPaymentUnavailable = errors.New("order: the payment provider does not answer")
	// ErrPaymentRefused says that the provider does not take the payment, and that asking again is no use.
	ErrPaymentRefused = errors.New("order: the payment provider refuses the payment")
	// ErrPaymentUnusable says that the provider's answer breaks its contract, so that the buyer cannot be sent to it. The
	// order stays as it is, and the same call may be repeated.
	ErrPaymentUnusable = errors.New("order: the answer of the payment provider cannot be used")
	// ErrPaymentNotFound says that the provider has no such payment.
	ErrPaymentNotFound = errors.New("order: the payment provider has no such payment")
)

// PaymentProvider takes the buyers' money. Its errors are [ErrPaymentUnavailable], [ErrPaymentRefused],
// [ErrPaymentUnusable], [ErrPaymentNotFound] and the context's. It tells of money that it has received by itself, through [Lifecycle.Settle].
type PaymentProvider interface {
	// Create returns the payment for a request: a new one, or the one of an earlier call with the same key.
	Create(ctx context.Context, r PaymentRequest) (Payment, error)
	// Refund returns nil once the money is on its way back, by this call or an earlier one with the same key.
	Refund(ctx context.Context, r RefundRequest) error
}

// Receipt is money that the provider has received.
type Receipt struct {
	// PaymentID is the provider's, at most 64 characters. A second receipt with the same id changes nothing.
	PaymentID string
	// OrderID is 0 if the provider names none.
	OrderID     int64
	AmountCents int64
	// At is when the buyer paid, by the provider's clock.
	At time.Time
}

// Outcome is what became of the money of a receipt.
type Outcome string

// The outcomes.
const (
	// SettledPaid: the order was unpaid, and is paid now.
	SettledPaid Outcome = "paid"
	// SettledLate: the order was cancelled or expired, and has taken a unit again.
	SettledLate Outcome = "paid_late"

	// LateUndecided: the order was cancelled or expired, and the gate of the admission flow is to be asked for
	// a voucher. The outcome becomes SettledLate, RefundNoStock, RefundOtherOrder or RefundNotPayable.
	LateUndecided Outcome = "late"

	// The money of the following outcomes goes back to the buyer.

	RefundWrongAmount Outcome = "wrong_amount" // the order stays as it is
	RefundNoStock     Outcome = "no_stock"     // it came late, and no unit is left
	RefundOtherOrder  Outcome = "other_order"  // it came late, and the user has another order
	RefundNotPayable  Outcome = "not_payable"  // the order was paid before, or never asked for payment

	// Unmatched: there is no such order. The money is kept and counted.
	Unmatched Outcome = "unmatched"
)

// Bought reports whether the money has paid for a unit.
func (o Outcome) Bought() bool { return o == SettledPaid || o == SettledLate }

// Refund reports whether the money goes back at once.
func (o Outcome) Refund() bool { return !o.Bought() && o != Unmatched && o != LateUndecided }

// Settlement is what became of a receipt.
type Settlement struct {
	Outcome Outcome
	// Repeated says that an earlier receipt of the same payment was settled, with this outcome.
	Repeated bool
}
