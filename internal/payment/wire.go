package payment

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// ErrMalformed says that the provider sent what it should not.
var ErrMalformed = errors.New("payment: malformed")

// Payment is a payment as the provider's JSON has it.
type Payment struct {
	ID            string     `json:"id"`
	Reference     string     `json:"reference"`
	AmountCents   int64      `json:"amount_cents"`
	Currency      string     `json:"currency"`
	Status        string     `json:"status"`
	PayURL        string     `json:"pay_url"`
	ExpiresAt     time.Time  `json:"expires_at"`
	PaidAt        *time.Time `json:"paid_at,omitempty"`
	RefundedCents int64      `json:"refunded_cents"`
}

// Refund is a refund as the provider's JSON has it.
type Refund struct {
	ID          string `json:"id"`
	PaymentID   string `json:"payment_id"`
	AmountCents int64  `json:"amount_cents"`
	Currency    string `json:"currency"`
}

// CreatePayment is the body of POST /v1/payments.
type CreatePayment struct {
	Reference   string    `json:"reference"`
	AmountCents int64     `json:"amount_cents"`
	Currency    string    `json:"currency"`
	ExpiresAt   time.Time `json:"expires_at"`
	// ReturnURL is the page to which the buyer goes back.
	ReturnURL string `json:"return_url,omitempty"`
}

// CreateRefund is the body of POST /v1/payments/{id}/refunds.
type CreateRefund struct {
	AmountCents int64  `json:"amount_cents"`
	Currency    string `json:"currency"`
}

// Problem is the body of an answer that is not a success.
type Problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// The types of events. Events of other types are accepted and change nothing.
const (
	EventPaid     = "payment.paid"
	EventRefused  = "payment.refused"
	EventExpired  = "payment.expired"
	EventRefunded = "payment.refunded"
)

// Event is the body of a webhook: something happened to a payment, which is then as in Data.
type Event struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      Payment   `json:"data"`
}

// Bounds of what a provider may send.
const (
	maxReference = 64
	maxURL       = 500
)

// ParseEvent parses the body of a verified webhook.
func ParseEvent(body []byte) (Event, error) {
	var e Event
	if err := Unmarshal(body, &e); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if e.Type == "" {
		return Event{}, fmt.Errorf("%w: the event has no type", ErrMalformed)
	}
	return e, nil
}

// The states of a payment. A payment that was paid stays paid when it is refunded: RefundedCents says how much went
// back.
const (
	StatusOpen       = "open"       // the buyer has not decided
	StatusProcessing = "processing" // the buyer has paid, and the money is on its way
	StatusPaid       = "paid"
	StatusRefused    = "refused" // by the buyer or the buyer's bank; it may be tried again until it expires
	StatusExpired    = "expired" // the buyer did not decide in time
)

// Final reports whether the payment is paid or can no longer be.
func (p Payment) Final() bool { return p.Status == StatusPaid || p.Status == StatusExpired }

// Check returns an [ErrMalformed] that names what a provider should not send.
func (p Payment) Check() error {
	switch {
	case !validID(p.ID):
		return fmt.Errorf("%w: payment id %.80q", ErrMalformed, p.ID)
	case len(p.Reference) > maxReference:
		return fmt.Errorf("%w: a reference of %d bytes", ErrMalformed, len(p.Reference))
	case p.AmountCents <= 0 || len(p.Currency) != 3:
		return fmt.Errorf("%w: an amount of %d %.10q", ErrMalformed, p.AmountCents, p.Currency)
	case p.RefundedCents < 0 || p.RefundedCents > p.AmountCents:
		return fmt.Errorf("%w: %d of %d cents refunded", ErrMalformed, p.RefundedCents, p.AmountCents)
	case !slices.Contains([]string{StatusOpen, StatusProcessing, StatusPaid, StatusRefused, StatusExpired}, p.Status):
		return fmt.Errorf("%w: status %.40q", ErrMalformed, p.Status)
	case (p.Status == StatusPaid) != (p.PaidAt != nil && !p.PaidAt.IsZero()):
		return fmt.Errorf("%w: status %s with paid_at %v", ErrMalformed, p.Status, p.PaidAt)
	}
	return nil
}

// checkPage returns an [ErrMalformed] unless the address can be stored and a browser opens it as a page: the buyer is
// sent there. It matters for a payment that is created, and not for one that was paid.
func checkPage(address string) error {
	if len(address) > maxURL {
		return fmt.Errorf("%w: pay_url has %d bytes, at most %d", ErrMalformed, len(address), maxURL)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return fmt.Errorf("%w: pay_url is no address of a page", ErrMalformed)
	}
	return nil
}
