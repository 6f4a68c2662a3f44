package order

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seckill/internal/voucher"
)

// Errors of an accepted order that cannot be persisted, besides [ErrAlreadyOrdered] and
// [voucher.ErrSoldOut]. All but ErrOverloaded, ErrRefused and ErrVoucherMissing are final: another
// attempt ends the same.
var (
	// ErrOverloaded says that nothing was decided, because too many accepted orders are not persisted
	// yet. The same request may succeed in a moment.
	ErrOverloaded = errors.New("order: too many orders in flight")
	// ErrStaleEpoch says that the order was accepted under an epoch that has since been closed and
	// drained. The stock that it took no longer counts.
	ErrStaleEpoch = errors.New("order: accepted under an epoch that is over")
	// ErrFutureEpoch says that the database does not have the order's epoch yet. If the gate has it, the database is behind
	// the gate, and the order is to be persisted: see Ahead of an accepted order in package contract. Otherwise no gate has accepted the order.
	ErrFutureEpoch = errors.New("order: accepted under an epoch that is still to come")
	// ErrIDTaken says that another order has this order's id.
	ErrIDTaken = errors.New("order: id belongs to another order")
	// ErrRefused comes with [ErrUnavailable]: the database answered and refused the data it was given.
	// It may refuse this order only, or every order.
	ErrRefused = errors.New("order: the database refused the data")
	// ErrVoucherMissing comes with [ErrUnavailable]: the database answered and does not have the voucher.
	// No voucher is ever deleted, so the database has lost some of its data, for instance because a
	// replica that lags took over. That says nothing about any order of the voucher.
	ErrVoucherMissing = errors.New("order: the database does not have the voucher")
)

// RepeatedError says that the user's order was accepted earlier, under the same idempotency key.
type RepeatedError struct {
	// ID is the order's.
	ID int64
}

func (e *RepeatedError) Error() string {
	return fmt.Sprintf("order: placed before under the same key, as %d", e.ID)
}

// Gate decides orders in front of the database, under the admission flow. An accepted order is not lost
// and reaches the database later, exactly once.
type Gate interface {
	// Refusal returns the error with which Admit would refuse the user, if the gate knows it without
	// asking a server; otherwise nil. It needs no order id. It does not look for an earlier order of
	// the same request.
	Refusal(v *voucher.Voucher, userID int64) error
	// Admit decides about o, whose ID and Key are the request's. It returns nil if the order is accepted,
	// now or by an earlier call. If the user's order was accepted under the same key, but with another ID,
	// it returns a [*RepeatedError]. Otherwise it returns [voucher.ErrNotStarted], [voucher.ErrEnded],
	// [voucher.ErrPaused], [voucher.ErrSoldOut], [ErrAlreadyOrdered], [ErrOverloaded], the context's error if nothing was
	// decided, or [ErrUnavailable] if admission is closed or the outcome is unknown.
	Admit(ctx context.Context, v *voucher.Voucher, o Order) error
	// Lookup returns, as Pending, an order of the user that was accepted before the call and is not in
	// the database yet. The order may have reached the database meanwhile, but it was not rejected.
	// [ErrNotFound] means that there is none: if the order was ever accepted, it is in the database by
	// now. [ErrUnavailable] means that this is unknown. CreatedAt may be zero.
	Lookup(ctx context.Context, userID, orderID int64) (Order, error)
	// OrderOf returns the user's accepted order of a voucher with its Key, as Pending, even if it is in
	// the database already. [ErrNotFound] and [ErrUnavailable] mean the same as for Lookup.
	OrderOf(ctx context.Context, v *voucher.Voucher, userID int64) (Order, error)
	// OrdersOf lists every order of a user that Lookup would find, in any order. Every other order that
	// was accepted before the call is in the database when OrdersOf returns.
	OrdersOf(ctx context.Context, userID int64) ([]Order, error)
	// Await returns nil once the order is final, when the limit has passed, or if it cannot tell. The
	// caller then reads the database. Its only error is the context's.
	Await(ctx context.Context, o Order, limit time.Duration) error
	// Audit counts what the gate holds of a voucher, or returns [ErrUnavailable].
	Audit(ctx context.Context, voucherID int64) (GateAudit, error)
}

// GateAudit is what the gate holds of a voucher. It is the sum over the voucher's buckets, which are
// read one after the other.
type GateAudit struct {
	// Stock is what can still be accepted, including stock in transit between buckets. Pending counts
	// the accepted orders that are not yet persisted and acknowledged.
	Stock, Pending int64
	// Returned is what has arrived here, within the epoch, of the stock that orders gave back.
	Returned int64
	// Epoch and Seq identify the state: while Epoch, Seq and Pending stay the same, nothing was decided,
	// moved or acknowledged. Seq is the sum of the buckets' sequence numbers. Each of them only grows
	// within an epoch, so equal sums mean that no bucket changed. If two consecutive reads are equal,
	// the first was a consistent snapshot when it ended.
	Epoch, Seq int64
}
