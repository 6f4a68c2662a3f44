package order

import (
	"context"
	"errors"
	"time"

	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// What can go wrong with an order, besides the voucher's and the lock's own
// errors. Compare with errors.Is.
var (
	ErrNotFound       = errors.New("order: not found")
	ErrAlreadyOrdered = errors.New("order: user has already ordered this voucher")
	// ErrBusy: the lock was not acquired within the policy's wait limit.
	ErrBusy = errors.New("order: another order holds the lock")
	// ErrConflict: the optimistic write lost to another one; nothing was sold.
	ErrConflict = errors.New("order: stock was changed by another order")
	// ErrStale: a newer holder of the lock has written already.
	ErrStale = errors.New("order: fencing token is out of date")
	// ErrUnavailable: a server this needs does not answer, and whether the order
	// was placed could not be found out.
	ErrUnavailable = errors.New("order: service unavailable")
)

// Status is where an order is in its life.
type Status string

// The states.
const (
	Pending   Status = "pending"
	Confirmed Status = "confirmed"
	Rejected  Status = "rejected"
)

// Order is one user's order of one voucher.
type Order struct {
	ID, VoucherID, UserID int64
	Status                Status
	CreatedAt             time.Time
}

// Audit is what is known of a voucher's sale: what the database holds, counted in one
// transaction, and under the flow admission what the gate does.
type Audit struct {
	InitialStock, Stock int64
	// Orders counts the live orders, DistinctUsers those who placed them.
	Orders, DistinctUsers int64
	Pending               int64
	// Gate is the gate's part; nil where the voucher is sold without one. It and the
	// database cannot be read at one moment, so the sums are exact at rest: an order
	// that is persisted in between is seen twice or not at all.
	Gate *GateAudit
}

// Left is what can still be sold: the gate's stock where there is one, since the
// database's follows it when the orders are persisted.
func (a Audit) Left() int64 {
	if a.Gate != nil {
		return a.Gate.Stock
	}
	return a.Stock
}

// OnTheirWay is how many orders are accepted and not confirmed.
func (a Audit) OnTheirWay() int64 {
	if a.Gate != nil {
		return a.Pending + a.Gate.Pending
	}
	return a.Pending
}

// Oversold is how many orders there are beyond the initial stock.
func (a Audit) Oversold() int64 { return max(0, a.Orders-a.InitialStock) }

// DuplicateOrders is how many orders there are beyond one per user.
func (a Audit) DuplicateOrders() int64 { return a.Orders - a.DistinctUsers }

// Unaccounted is the stock that is neither left, ordered nor pending. Below 0:
// more was ordered than was taken from the stock.
func (a Audit) Unaccounted() int64 {
	return a.InitialStock - a.Left() - a.Orders - a.OnTheirWay()
}

// Drift is by how much the database's own stock disagrees with its own orders, which
// it changes together: anything but 0 is wrong at any moment.
func (a Audit) Drift() int64 { return a.InitialStock - a.Stock - a.Orders - a.Pending }

// Balanced says whether the sale was right.
func (a Audit) Balanced() bool {
	return a.Oversold() == 0 && a.DuplicateOrders() == 0 && a.Unaccounted() == 0 && a.Drift() == 0
}

// Store keeps orders. Its errors are those of this package and of voucher;
// anything the database could not answer is [ErrUnavailable].
type Store interface {
	// Transact runs fn in one transaction that is committed when fn returns nil
	// and rolled back otherwise. Reads before the first write see what is
	// committed at that moment (READ COMMITTED).
	//
	// A deadlock or a lock wait timeout rolls back and repeats the whole of fn, a
	// bounded number of times. A commit whose outcome is unknown is
	// [ErrUnavailable]: the caller can look for the order by its ID.
	Transact(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error
	// Order returns an order, or [ErrNotFound].
	Order(ctx context.Context, id int64) (Order, error)
	// OrdersOf lists up to limit orders of a user with an ID below before,
	// newest first.
	OrdersOf(ctx context.Context, userID, before int64, limit int) ([]Order, error)
	// Audit counts, or returns [voucher.ErrNotFound].
	Audit(ctx context.Context, voucherID int64) (Audit, error)
}

// Tx is a transaction at work. A write may be put off until the next read, Flush or
// the commit, and its error is then theirs: so that the row which all buyers wait
// for is locked as late and as shortly as can be.
type Tx interface {
	// Ordered says whether the user has an order of the voucher.
	Ordered(ctx context.Context, voucherID, userID int64) (bool, error)
	// StockOf reads the stock and its version as they are now.
	StockOf(ctx context.Context, voucherID int64) (stock, version int64, err error)

	// Flush sends the writes that were put off.
	Flush(ctx context.Context) error

	// The four ways to take one from the stock. Where there is no such voucher they
	// give [voucher.ErrNotFound].

	// Decrement takes one if the stock is above 0: else [voucher.ErrSoldOut].
	Decrement(ctx context.Context, voucherID int64) error
	// SetStock writes the stock whatever it was.
	SetStock(ctx context.Context, voucherID, stock int64) error
	// DecrementVersion takes one if the version is still the one given: else
	// [ErrConflict], or [voucher.ErrSoldOut] where there is nothing left.
	DecrementVersion(ctx context.Context, voucherID, version int64) error
	// DecrementFenced takes one if the stock is above 0 and no newer token has
	// written: else [voucher.ErrSoldOut] or [ErrStale].
	DecrementFenced(ctx context.Context, voucherID int64, token uint64) error

	// Insert writes an order. With unique the database refuses a user's second:
	// [ErrAlreadyOrdered].
	Insert(ctx context.Context, o Order, unique bool) error
}

// IDs mints order ids: positive, never the same twice.
type IDs interface {
	NextID(ctx context.Context) (int64, error)
}

// Lockers finds a mechanism by name; [lock.Registry] is one.
type Lockers interface {
	Locker(name string) (lock.Locker, error)
}

// Vouchers gives the vouchers on sale as cheaply as it can; [voucher.Cache] is
// one.
type Vouchers interface {
	// Voucher returns a voucher whose stock may be a little behind, and is never
	// to be changed by the caller; or [voucher.ErrNotFound].
	Voucher(ctx context.Context, id int64) (*voucher.Voucher, error)
	// SoldOut tells that the store was just seen to have nothing left.
	SoldOut(id int64)
}
