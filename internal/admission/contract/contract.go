// Package contract has what the database promises to those who carry out the admission flow: the gate, which package
// admission has, and the workers of package fulfil, which write what the gate accepted. Package database keeps it.
package contract

import (
	"context"
	"time"

	"seckill/internal/order"
)

// Accepted is an order that the gate has accepted.
type Accepted struct {
	OrderID, VoucherID, UserID int64
	// At is when it was accepted, by the gate's clock.
	At time.Time
	// Epoch is the epoch under which it was accepted, Seq the sequence number of its bucket after the call that
	// accepted it.
	Epoch, Seq int64
	// Bucket is the voucher's bucket whose stock it took; 0 if the voucher is not split.
	Bucket int
	// Trace is the W3C traceparent of the call that accepted it; "" without tracing.
	Trace string
	// Key is the idempotency key under which it was accepted.
	Key order.KeyHash
	// Ahead says that the gate has the order's epoch, even if the database does not: the database was restored from
	// older data, or an older copy of it took over.
	Ahead bool
	// Late says that the order is in the database already: it was cancelled or expired, its money came late, and the
	// gate has reserved a unit for it again.
	Late bool
}

// PersistedAs reports whether the order is carried out as the database holds it; see [order.Status.Persisted].
//
// A late order is an order that was persisted before, and then cancelled or expired. Any other order that has given its
// unit back may hold a second unit of the gate: if a call's reply was lost, and the gate had taken the first unit back
// before the call was repeated, the order was accepted again. The time of acceptance tells the two apart.
func (a Accepted) PersistedAs(o order.Order) bool {
	waits := a.Late && (o.Status == order.Cancelled || o.Status == order.Expired)
	again := !a.Late && !o.Status.Live() && !o.CreatedAt.Equal(a.At.Truncate(time.Microsecond))
	return o.Status.Persisted() && !waits && !again
}

// EpochState is what the database knows of a voucher's admission.
type EpochState struct {
	// Epoch is odd while admission is closed and even while it is open. It only grows.
	Epoch int64
	// Seq is, for each bucket, the greatest sequence number of the persisted orders.
	Seq []int64
	// Stock is the database's remaining stock. Returned is what orders have given back since the latest even epoch was
	// opened: Stock has it, and the gate's stock has it once it arrived there.
	Stock, Returned int64
	// ReturnedToFirst is what was given back to the first bucket in the open epoch, with what an administrator has
	// added.
	ReturnedToFirst int64
	// Arrived is how much of what was given back in this epoch the gate was told of, by bucket; a bucket that was told
	// of nothing is missing. A gate that has less has lost data.
	Arrived map[int]int64
	// BeginAt and EndAt are the sale's window.
	BeginAt, EndAt time.Time
	// Paused says that nothing is sold at the moment. Revision counts the changes of the window and of it, among
	// others.
	Paused   bool
	Revision int64
	// Generation is that of the pair of database and gate under which the voucher was closed or opened last.
	Generation int64
	// Forgotten says that the gate's data of the voucher was removed under Epoch, which is closed, after every order
	// had been persisted. Until the voucher is closed again, which resets the mark, only the database knows its orders.
	Forgotten bool
}

// Open reports whether orders may be accepted, under s.Epoch.
func (s EpochState) Open() bool { return s.Epoch > 0 && s.Epoch%2 == 0 }

// AdmissionStore is the database's side of the admission flow. Its errors are those of the packages order and voucher.
// [order.ErrUnavailable] is every error that is not known to be the order's own: the database did not answer, refused
// for a reason of its own, or left the outcome unknown. The caller repeats the call.
//
// The caller acts on what Persist, Reject and LiveOrders return, so they return nothing that a crash of the database
// can undo, whoever wrote it.
type AdmissionStore interface {
	// Persist confirms a batch of accepted orders and takes them from the stock, in one transaction. If it returns an
	// error, nothing was written. An order that is stored already, or is in the batch twice, changes nothing.
	//
	// It returns the state of each order, in the order of the batch: Confirmed, or Unpaid if the voucher asks for
	// payment. An order that is stored already has the state that it has reached: Rejected if it was rejected earlier,
	// and any other state if it was persisted. Rejected is also the state of one that has given its unit back and was
	// accepted again, see [Accepted.PersistedAs]: the reservation is to be given back. One order alone can fail the
	// batch:
	//
	//	ErrAlreadyOrdered   the user has another order
	//	ErrStaleEpoch       the order's epoch is over
	//	ErrFutureEpoch      the order's epoch is still to come, and the order is not Ahead
	//	ErrIDTaken          another order has its id
	//	voucher.ErrSoldOut  the stock is smaller than the batch; fewer orders may fit
	//
	// A voucher that is not there is no such reason: see [order.ErrVoucherMissing].
	//
	// A Late order becomes Paid if its money is still undecided, and takes from the stock like the others. If the money
	// was refunded meanwhile, the state is Rejected: the reservation is to be given back.
	//
	// The database itself has established each of these by reading the row or the stock. Any other error, except
	// [order.ErrUnavailable] and the context's, is unforeseen.
	Persist(ctx context.Context, batch []Accepted) ([]order.Status, error)
	// Reject records that an accepted order will not be carried out, unless its state is final already. It returns that
	// state: Rejected, or another one if the order was persisted meanwhile. The error is [order.ErrIDTaken] if another
	// order has its id. The money of a Late order is due for a refund then; if only its epoch is over, the money stays
	// undecided.
	Reject(ctx context.Context, a Accepted) (order.Status, error)

	// EpochState returns the voucher's epoch state, or [voucher.ErrNotFound].
	EpochState(ctx context.Context, voucherID int64) (EpochState, error)
	// Close makes the epoch odd, unless it is odd already. From then on nothing may be accepted. Orders of the epoch
	// just before are still persisted, so that orders in flight can be drained. A forgotten voucher gets the next odd
	// epoch and is no longer forgotten.
	Close(ctx context.Context, voucherID int64) (EpochState, error)
	// CloseAbove closes a voucher whose epoch is smaller than one that the gate has, under the next odd epoch above
	// that one: the database was restored from older data, or an older copy of it took over. Otherwise it changes
	// nothing.
	CloseAbove(ctx context.Context, voucherID, epoch int64) (EpochState, error)
	// Open ends the closed epoch that Close returned and, in the same step, reads the stock and the sequence numbers to
	// start from. From then on orders of earlier epochs fail with [order.ErrStaleEpoch]. [order.ErrConflict] means that
	// another process has opened the voucher, or closed it again, meanwhile.
	Open(ctx context.Context, voucherID, closed int64) (EpochState, error)
	// LiveOrders lists up to limit live orders of the voucher whose user ID is above afterUser, by user, with their
	// keys. order.Status and CreatedAt are not set. A crash can undo what the pages have until the empty page at the
	// end was returned.
	LiveOrders(ctx context.Context, voucherID, afterUser int64, limit int) ([]order.Order, error)
	// Forget marks a voucher as forgotten. It returns [order.ErrConflict] if the voucher is no longer closed under that
	// epoch, or its sale ends after endedBy.
	Forget(ctx context.Context, voucherID, closed int64, endedBy time.Time) error
	// Cleared records that the gate's data of a forgotten voucher was deleted. It returns [order.ErrConflict] if the
	// voucher is not forgotten under that epoch.
	Cleared(ctx context.Context, voucherID, forgotten int64) error
	// UnclearedVouchers lists up to limit vouchers with an ID above after whose sale ended by endedBy and of which the
	// gate may still have data, by ID.
	UnclearedVouchers(ctx context.Context, endedBy time.Time, after int64, limit int) ([]AdmissionVoucher, error)
	// AdmissionVouchers lists the vouchers that are sold by admission, are not forgotten, and whose sale ends after
	// endsAfter, by ID.
	AdmissionVouchers(ctx context.Context, endsAfter time.Time) ([]AdmissionVoucher, error)
}

// ReturnStore is the database's side of stock that goes back to the gate. An order that is cancelled, expired or
// refunded gives its unit back in one transaction of the database ([order.LifecycleStore]); the gate is told
// afterwards, as often as it takes. Its errors are those of [AdmissionStore].
type ReturnStore interface {
	// Returns looks at up to limit buckets with orders of which the gate was not told yet, after the bucket of a
	// return, by voucher and bucket. It lists those of the current epoch, and forgets the others: the next epoch begins
	// with their stock. more says that there may be further buckets. A crash of the database cannot undo what is
	// listed.
	Returns(ctx context.Context, after Return, limit int) (due []Return, more bool, err error)
	// Returned records that the gate was told of a return, and the sequence number that the bucket has since then: a
	// gate with a smaller one has lost data.
	Returned(ctx context.Context, r Return, seq int64) error
}

// Return is stock of one bucket that the gate is to take back.
type Return struct {
	VoucherID int64
	Bucket    int
	Epoch     int64
	// Total counts the units that orders of this bucket gave back within the epoch, with those of Orders and of earlier
	// returns.
	Total int64
	// Orders are the orders whose users may order again.
	Orders []ReturnedOrder
}

// ReturnedOrder is an order that has given its unit back. Only ID, UserID and Key are set.
type ReturnedOrder struct {
	order.Order
	// Late says that the unit was the second one that the order had: it was paid late.
	Late bool
}

// LateStore is the database's side of late money under the admission flow: money for an order that was cancelled or
// expired, see [order.LateUndecided]. Its errors are those of [AdmissionStore].
type LateStore interface {
	// LateMoney lists up to limit payments that are undecided, with IDs above after, by ID. It leaves out those whose
	// order has given a unit back of which the gate is still to be told. A crash of the database cannot undo what is
	// listed.
	LateMoney(ctx context.Context, after string, limit int) ([]LateMoney, error)
	// RefundLate decides that the money goes back, for one of the reasons among the outcomes. Money that is decided
	// already stays as it is.
	RefundLate(ctx context.Context, m LateMoney, why order.Outcome) error
	// PayForgotten has the order take a unit of a voucher that the gate has forgotten: then the database has the stock.
	// It returns [voucher.ErrSoldOut], [order.ErrAlreadyOrdered], or [order.ErrConflict] if the gate has the voucher
	// again.
	PayForgotten(ctx context.Context, m LateMoney) error
	// Persist is that of [AdmissionStore].
	Persist(ctx context.Context, batch []Accepted) ([]order.Status, error)
}

// LateMoney is a payment that is undecided.
type LateMoney struct {
	PaymentID string
	// Order is the order that it was paid for, with its Key. CreatedAt is zero.
	Order order.Order
}

// AdmissionVoucher is a voucher that is sold by admission.
type AdmissionVoucher struct {
	VoucherID int64
	// Buckets is the number of buckets that its stock is split into, at least 1.
	Buckets int
	// Epoch is the database's; see [EpochState].
	Epoch int64
}
