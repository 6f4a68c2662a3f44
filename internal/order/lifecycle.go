package order

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"
)

// Errors of an order's lifecycle after it was placed.
var (
	// ErrNotCancellable says that the order is not unpaid; see [StateError].
	ErrNotCancellable = errors.New("order: not cancellable")
	// ErrNotPayable says that the order is not unpaid, or asks for no payment; see [StateError].
	ErrNotPayable = errors.New("order: not payable")
	// ErrNotRefundable says that the order is not paid; see [StateError].
	ErrNotRefundable = errors.New("order: not refundable")
)

// StateError says that an order's state does not allow what was asked for. It wraps [ErrNotCancellable],
// [ErrNotPayable] or [ErrNotRefundable].
type StateError struct {
	Err    error
	Status Status
}

func (e *StateError) Error() string { return fmt.Sprintf("%v: the order is %s", e.Err, e.Status) }

func (e *StateError) Unwrap() error { return e.Err }

// HistoryEntry is a state that an order came to, and when.
type HistoryEntry struct {
	Status Status
	At     time.Time
}

// PaymentRecord is money that was received for an order.
type PaymentRecord struct {
	PaymentID   string
	AmountCents int64
	ReceivedAt  time.Time
	Outcome     Outcome
	// RefundDue says that the money is to go back; RefundedAt, when the provider had returned it.
	RefundDue  bool
	RefundedAt time.Time
}

// Details is what an order has besides its state.
type Details struct {
	// PayBy and AmountCents are zero for an order that asks for no payment. Then the rest is empty too.
	PayBy       time.Time
	AmountCents int64
	// PaidAt is when the order was paid; zero before that.
	PaidAt time.Time
	// History lists the states since the order was written, oldest first.
	History []HistoryEntry
	// Payments lists the money that was received, oldest first.
	Payments []PaymentRecord
}

// LifecycleStore moves orders from state to state: each method is one transaction, with the conditional statement
// of its row in the table of transitions ([TransitionOf]) and all that follows from it. Its errors are those of this
// package, as of [Store].
//
// A method that changes nothing, because another call has made the change, returns once a crash of the database
// cannot undo that change. Nor can it undo what DueRefunds and PaymentOf return.
type LifecycleStore interface {
	// Details returns what an order has besides its state, or [ErrNotFound].
	Details(ctx context.Context, o Order) (Details, error)
	// StatesOf returns the states of those of the orders that exist.
	StatesOf(ctx context.Context, orderIDs []int64) (map[int64]Status, error)

	// Cancel moves an unpaid order to [Cancelled] and gives its unit back. It returns the order; an order
	// that is cancelled already is returned as it is. Otherwise the error is an [ErrNotCancellable].
	Cancel(ctx context.Context, orderID int64) (Order, error)
	// ExpireDue moves up to limit orders whose time to pay is over to [Expired], gives their units back,
	// and returns how many there were. Any number of processes may call it at the same time. If a voucher
	// fails, the orders of others expire all the same, and the error is that of the first one that failed.
	ExpireDue(ctx context.Context, limit int) (int, error)

	// PaymentOf returns the payment of an unpaid order. For an order that was created a payment before, it
	// returns that in any state. Otherwise the error is [ErrNotPayable] or [ErrNotFound].
	PaymentOf(ctx context.Context, orderID int64) (Payment, error)
	// KeepPayment stores the id and the address of a payment that PaymentOf has returned without them, and
	// returns it. If some are stored already, it returns that payment.
	KeepPayment(ctx context.Context, p Payment) (Payment, error)
	// MarkPaid settles money that was received, once for each payment:
	//
	//	unpaid order, right amount     Paid
	//	cancelled or expired order     Paid, if in the same transaction a unit is left and the user has
	//	                               no other order; under the admission flow [LateUndecided], see LateStore in package contract.
	//	                               Once money of the order was refused for that, further money is too
	//	another amount, another state  the money is to be refunded
	//	no such order                  the money is kept and counted
	MarkPaid(ctx context.Context, r Receipt) (Settlement, error)

	// BeginRefund moves a paid order to [Refunding], gives its unit back, and has its money refunded. It
	// returns the order; an order that is being or was refunded is returned as it is. Otherwise the error is
	// an [ErrNotRefundable].
	BeginRefund(ctx context.Context, orderID int64) (Order, error)
	// DueRefunds lists up to limit refunds that the provider is to carry out, of payments with an ID above
	// after, by ID. A refund stays in the list until MarkRefunded.
	DueRefunds(ctx context.Context, after string, limit int) ([]RefundRequest, error)
	// MarkRefunded records that the provider has returned the money of a payment. The order that it had paid
	// is [Refunded] then. A repetition changes nothing. Money that is undecided takes no unit any more.
	MarkRefunded(ctx context.Context, paymentID string) error
	// UnmatchedPayments counts the money that belongs to no order and was not given back.
	UnmatchedPayments(ctx context.Context) (payments, cents int64, err error)
}

// Lifecycle moves orders through their states after they were placed.
type Lifecycle struct {
	LifecycleConfig
	watch stateWatch
}

// LifecycleConfig is what a [Lifecycle] needs. Provider may be nil: then nobody can pay.
type LifecycleConfig struct {
	Store    LifecycleStore
	Orders   *Service
	Provider PaymentProvider
	Log      *slog.Logger
}

// NewLifecycle returns a Lifecycle, or an error if something is missing.
func NewLifecycle(c LifecycleConfig) (*Lifecycle, error) {
	if c.Store == nil || c.Orders == nil || c.Log == nil {
		return nil, errors.New("order: incomplete configuration")
	}
	return &Lifecycle{LifecycleConfig: c, watch: newStateWatch(c.Store)}, nil
}

// Cancel cancels a user's unpaid order. Its errors are those of [Service.Order] and [ErrNotCancellable].
func (l *Lifecycle) Cancel(ctx context.Context, userID, id int64) (Order, error) {
	o, err := l.Orders.Order(ctx, userID, id)
	switch {
	case err != nil:
		return Order{}, err
	case o.Status == Pending: // it is not in the database yet
		return Order{}, &StateError{ErrNotCancellable, Pending}
	}
	return l.Store.Cancel(ctx, id)
}

// Pay returns the payment of a user's unpaid order, and creates it at the provider the first time. Two calls
// at once create one payment: the provider knows the key of the order. returnTo is the page to which the buyer goes back
// from the provider's; "" if there is none.
func (l *Lifecycle) Pay(ctx context.Context, userID, id int64, returnTo string) (Payment, error) {
	o, err := l.Orders.Order(ctx, userID, id)
	switch {
	case err != nil:
		return Payment{}, err
	case o.Status == Pending:
		return Payment{}, &StateError{ErrNotPayable, Pending}
	}
	p, err := l.Store.PaymentOf(ctx, id)
	if err != nil || p.ID != "" {
		return p, err
	}
	if l.Provider == nil {
		return Payment{}, fmt.Errorf("%w: this server has no payment provider", ErrUnavailable)
	}
	made, err := l.Provider.Create(ctx, PaymentRequest{
		Key: PaymentKey(id), OrderID: id, AmountCents: p.AmountCents, PayBy: p.PayBy, ReturnTo: returnTo,
	})
	if err != nil {
		return Payment{}, err
	}
	p.ID, p.URL = made.ID, made.URL
	return l.Store.KeepPayment(ctx, p)
}

// PaymentKey is the idempotency key under which the payment of an order is created.
func PaymentKey(orderID int64) string { return "order-" + strconv.FormatInt(orderID, 10) }

// Settle settles money that the provider has received; see [LifecycleStore].
func (l *Lifecycle) Settle(ctx context.Context, r Receipt) (Settlement, error) {
	s, err := l.Store.MarkPaid(ctx, r)
	if err == nil && !s.Repeated && !s.Outcome.Bought() && s.Outcome != LateUndecided {
		l.Log.LogAttrs(ctx, slog.LevelWarn, "money was received that paid for nothing",
			slog.String("payment", r.PaymentID), slog.Int64("order", r.OrderID),
			slog.Int64("cents", r.AmountCents), slog.String("outcome", string(s.Outcome)))
	}
	return s, err
}

// Refund has the money of a paid order refunded.
func (l *Lifecycle) Refund(ctx context.Context, id int64) (Order, error) {
	return l.Store.BeginRefund(ctx, id)
}

// Details returns what an order has besides its state. An order that asks for no payment has no details.
func (l *Lifecycle) Details(ctx context.Context, o Order) (Details, error) {
	switch o.Status {
	case Pending, Confirmed, Rejected:
		return Details{}, nil
	}
	return l.Store.Details(ctx, o)
}

// Await waits until an order that waits for money has another state, or until the limit has passed. It does
// not return the state. Its only error is the context's.
func (l *Lifecycle) Await(ctx context.Context, o Order, limit time.Duration) error {
	if o.Status != Unpaid && o.Status != Refunding {
		return nil
	}
	return l.watch.await(ctx, o, limit)
}

// The expiry looks for due orders every expireEvery, and takes up to expireBatch at a time. An order is
// expired at most expireEvery and the time of a few transactions late.
const (
	expireEvery = 500 * time.Millisecond
	expireBatch = 500
)

// RunExpiry expires orders until ctx ends. Every process runs it, and none of them is special: the database
// gives each due order to one of them.
func (l *Lifecycle) RunExpiry(ctx context.Context) {
	for failing := false; ; {
		n, err := l.Store.ExpireDue(ctx, expireBatch)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && n == expireBatch:
			continue // more may be due
		case err != nil && !failing:
			l.Log.LogAttrs(ctx, slog.LevelWarn, "unpaid orders cannot be expired, trying again", slog.Any("error", err))
		}
		failing = err != nil
		select {
		case <-time.After(expireEvery):
		case <-ctx.Done():
			return
		}
	}
}
