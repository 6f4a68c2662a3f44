package order

import (
	"context"
	"errors"
	"time"

	"seckill/internal/voucher"
)

// What can go wrong with an accepted order on its way into the database, besides
// [ErrAlreadyOrdered], [voucher.ErrSoldOut] and [voucher.ErrNotFound]. All of these
// are final: the same again ends the same.
var (
	// ErrOverloaded: nothing was decided, because too much that was accepted is not
	// persisted yet. The same request may well succeed in a moment.
	ErrOverloaded = errors.New("order: too many orders are on their way")
	// ErrStaleEpoch: the order was accepted under an epoch that was closed and
	// drained since, so the stock it took is not counted any more.
	ErrStaleEpoch = errors.New("order: accepted under an epoch that is over")
	// ErrIDTaken: the order's id is that of another order.
	ErrIDTaken = errors.New("order: id belongs to another order")
)

// Gate decides about orders in front of the database, under the flow admission. What
// it has accepted is not lost and reaches the database later, once.
type Gate interface {
	// Refusal says what Admit would refuse the user with, where that is known without
	// asking anybody; nil where it is not. It needs no id, so whoever is turned away costs
	// none, and no order may be of the request yet: it does not look for one.
	Refusal(v *voucher.Voucher, userID int64) error
	// Admit decides about o, whose ID is the request's: nil where it is accepted, also
	// when it was before. Otherwise [voucher.ErrNotStarted], [voucher.ErrEnded],
	// [voucher.ErrSoldOut], [ErrAlreadyOrdered], [ErrOverloaded], the context's error if
	// nothing was decided, or [ErrUnavailable] where admission is closed or the outcome
	// could not be found out.
	Admit(ctx context.Context, v *voucher.Voucher, o Order) error
	// Lookup finds an accepted order of the user, Pending: also one that the database
	// has by now, but never one that was rejected. [ErrNotFound] where there is none;
	// [ErrUnavailable] where that could not be found out. CreatedAt may be zero.
	Lookup(ctx context.Context, userID, orderID int64) (Order, error)
	// OrdersOf lists all that Lookup would find of a user, in any order.
	OrdersOf(ctx context.Context, userID int64) ([]Order, error)
	// Await waits until the order is final, and returns nil; the caller then reads the
	// database. At the limit, or where it cannot tell, it returns nil too. Its only
	// error is the context's.
	Await(ctx context.Context, o Order, limit time.Duration) error
	// Audit counts what the gate holds of a voucher, or returns [ErrUnavailable].
	Audit(ctx context.Context, voucherID int64) (GateAudit, error)
}

// GateAudit is what the gate holds of a voucher: of one that is split, in all buckets
// together, which are read one after the other.
type GateAudit struct {
	// Stock is what can still be accepted, what is in transit between buckets included;
	// Pending what was and is not persisted and acknowledged yet.
	Stock, Pending int64
	// Epoch and Seq name the moment: while they and Pending stay the same, nothing was
	// decided, moved or acknowledged. Seq is the sum of the buckets'; each only grows
	// within an epoch, so the same sum means that each is the same, and of two readings
	// in a row with the same numbers the first was true when it ended.
	Epoch, Seq int64
}

// Accepted is an order as the gate hands it on.
type Accepted struct {
	OrderID, VoucherID, UserID int64
	// At is when it was accepted, by the gate's clock.
	At time.Time
	// Epoch is the one it was accepted under, Seq the number of its decision among
	// those of its bucket.
	Epoch, Seq int64
	// Bucket is the one of the voucher's that it was taken from, 0 where there is one.
	Bucket int
	// Trace is the W3C traceparent of the call that accepted it, "" where nobody traces.
	Trace string
}

// Standing is the database's side of a voucher's admission.
type Standing struct {
	// Epoch is odd while admission is closed and even while it is open. It only grows.
	Epoch int64
	// Seq has, for each bucket, the greatest of the persisted orders'.
	Seq []int64
	// Stock is what the database has left.
	Stock int64
}

// Open says whether orders may be accepted, under s.Epoch.
func (s Standing) Open() bool { return s.Epoch > 0 && s.Epoch%2 == 0 }

// Shelf is the database's side of the flow admission. Its errors are those of
// this package and of voucher; where the database could not answer, or whether it
// did what it was asked to is not known, [ErrUnavailable]: the same again is right.
type Shelf interface {
	// Persist writes a batch of accepted orders as confirmed and takes them from the
	// stock, all in one transaction or, with an error, nothing. An order that is there
	// already, as the batch's order may be twice, changes nothing.
	//
	// It returns what each order's state is, in the order of the batch: Confirmed, or
	// Rejected where it was rejected before. The error of a batch may come from one
	// entry alone: [ErrAlreadyOrdered], [ErrStaleEpoch], [ErrIDTaken],
	// [voucher.ErrSoldOut] (of n orders, fewer may fit) and [voucher.ErrNotFound]. Any
	// other one, [ErrUnavailable] and the context's aside, is of a kind not foreseen.
	Persist(ctx context.Context, batch []Accepted) ([]Status, error)
	// Reject records that an accepted order will not be carried out, unless it was
	// decided already. It returns the order's state from now on: Rejected, or Confirmed
	// where it was persisted meanwhile. The error is [ErrIDTaken] where the id is that
	// of another order.
	Reject(ctx context.Context, a Accepted) (Status, error)

	// Standing returns the voucher's, or [voucher.ErrNotFound].
	Standing(ctx context.Context, voucherID int64) (Standing, error)
	// Close makes the epoch odd, unless it is: from the returned one on nothing may be
	// accepted, and orders of the epoch just before are still persisted, so that what
	// is under way can be drained.
	Close(ctx context.Context, voucherID int64) (Standing, error)
	// Open ends the closed epoch that Close returned, in one step with reading the stock
	// and sequence to begin with: from here on orders of earlier epochs are
	// [ErrStaleEpoch], whoever still holds one. [ErrConflict]: another process has
	// opened the voucher, or closed it again, since.
	Open(ctx context.Context, voucherID, closed int64) (Standing, error)
	// LiveOrders lists up to limit confirmed orders of the voucher whose user's ID is
	// above afterUser, by user: what an index holds, so CreatedAt is left zero.
	LiveOrders(ctx context.Context, voucherID, afterUser int64, limit int) ([]Order, error)
	// AdmissionSales lists the vouchers that are sold by admission and whose sale ends
	// after a time, by ID.
	AdmissionSales(ctx context.Context, endsAfter time.Time) ([]Sale, error)
}

// Sale is a voucher that is sold by admission.
type Sale struct {
	VoucherID int64
	// Buckets is how many its stock is split into, at least 1.
	Buckets int
}
