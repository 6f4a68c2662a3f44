package order

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// The errors of an order, besides the voucher's and the lock's own
// errors. Compare with errors.Is.
var (
	ErrNotFound       = errors.New("order: not found")
	ErrAlreadyOrdered = errors.New("order: user has already ordered this voucher")
	// ErrBusy says that the lock was not acquired within the policy's wait limit.
	ErrBusy = errors.New("order: another order holds the lock")
	// ErrConflict says that another writer won the optimistic write. Nothing was sold.
	ErrConflict = errors.New("order: stock was changed by another order")
	// ErrStale says that a newer holder of the lock has already written.
	ErrStale = errors.New("order: fencing token is out of date")
	// ErrPassRequired says that the voucher has a waiting room, and that the request has no pass that is valid.
	ErrPassRequired = errors.New("order: a pass is required")
	// ErrPassOver is an ErrPassRequired of a pass that was valid: the request may be the repetition of one with an order.
	ErrPassOver = fmt.Errorf("%w", ErrPassRequired)
	// ErrUnavailable says that a server does not answer and that it is not known whether the order
	// was placed.
	ErrUnavailable = errors.New("order: service unavailable")
)

// Order is one user's order of one voucher.
type Order struct {
	ID, VoucherID, UserID int64
	Status                Status
	CreatedAt             time.Time
	// PayBy is until when the order is to be paid, and AmountCents how much. They are set while an order is
	// placed whose voucher asks for payment; [LifecycleStore] shows them later.
	PayBy       time.Time
	AmountCents int64
	// Key is the idempotency key under which the order was placed. It is set under the admission flow
	// only, and only where a gate or a store returns an order with which requests are compared.
	Key KeyHash
	// Repeated says that [Service.Place] did not place the order: an earlier request with its key did.
	Repeated bool
}

// KeyHash is a hash of a client's idempotency key; 0 means that there is none. It tells the repetition
// of a request from another request of the same user for the same voucher, so 64 bits are enough: a
// user whose two keys had one hash would be told of the user's own order.
type KeyHash int64

// HashKey returns the hash of an idempotency key.
func HashKey(key string) KeyHash {
	sum := sha256.Sum256([]byte(key))
	return KeyHash(max(1, binary.BigEndian.Uint64(sum[:])))
}

// Audit is the state of a voucher's sale: what the database holds, counted in one transaction, and
// under the admission flow what the gate holds.
type Audit struct {
	InitialStock, Stock int64
	// Orders counts the live orders, DistinctUsers the users who placed them.
	Orders, DistinctUsers int64
	Pending               int64
	// Returned is what orders have given back since the gate was opened, see EpochState in package contract.
	Returned int64
	// Gate is what the gate holds; nil under the locked flow. The gate and the database cannot be
	// read at the same moment: an order that is persisted between the two reads is counted twice or
	// not at all. The sums are exact once no order is in flight.
	Gate *GateAudit
}

// Remaining is the stock that can still be sold. Under the admission flow that is the gate's: the
// database's stock follows when the orders are persisted.
func (a Audit) Remaining() int64 {
	if a.Gate != nil {
		return a.Gate.Stock
	}
	return a.Stock
}

// InFlight counts the orders that are accepted and not yet confirmed.
func (a Audit) InFlight() int64 {
	if a.Gate != nil {
		return a.Pending + a.Gate.Pending
	}
	return a.Pending
}

// Returning is the stock that was given back in the database and is not on sale again yet, because the gate
// was not told. It is 0 under the locked flow.
func (a Audit) Returning() int64 {
	if a.Gate != nil {
		return a.Returned - a.Gate.Returned
	}
	return 0
}

// Oversold counts the orders beyond the initial stock.
func (a Audit) Oversold() int64 { return max(0, a.Orders-a.InitialStock) }

// DuplicateOrders counts the orders beyond one per user.
func (a Audit) DuplicateOrders() int64 { return a.Orders - a.DistinctUsers }

// Unaccounted is the stock that is neither remaining, ordered, pending nor on its way back. A negative number means
// that more was ordered than was taken from the stock.
func (a Audit) Unaccounted() int64 {
	return a.InitialStock - a.Remaining() - a.Orders - a.InFlight() - a.Returning()
}

// Drift is the difference between the database's stock and its orders. One transaction changes both,
// so anything but 0 is wrong at any moment.
func (a Audit) Drift() int64 { return a.InitialStock - a.Stock - a.Orders - a.Pending }

// Balanced reports whether the sale adds up: nothing oversold, no duplicates, all stock accounted for.
func (a Audit) Balanced() bool {
	return a.Oversold() == 0 && a.DuplicateOrders() == 0 && a.Unaccounted() == 0 && a.Drift() == 0
}

// Store stores orders. Its errors are those of this package and of package voucher. If the database
// does not answer, the error is [ErrUnavailable].
type Store interface {
	// Transact runs fn in one transaction. It commits when fn returns nil and rolls back otherwise.
	// Reads before the first write see what is committed at that moment (READ COMMITTED).
	//
	// After a deadlock or a lock wait timeout it rolls back and runs the whole of fn again, a bounded
	// number of times. If the outcome of the commit is unknown, the error is [ErrUnavailable], and
	// the caller can look for the order by its ID.
	Transact(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error
	// PlaceGrouped takes a unit for an order of a user who may have one order, and inserts it, in one transaction with
	// other orders of the voucher that arrive at that time. Each of them has its own outcome, once the transaction is
	// over: nil, [voucher.ErrSoldOut], [voucher.ErrNotFound], [voucher.ErrChanged] unless the voucher has the given
	// revision (0: any), [ErrAlreadyOrdered], also for a duplicate ID, or [ErrBusy] if too many wait. Otherwise it is as with Transact; attempts is how often the transaction was begun. If
	// ctx ends before the order is part of a transaction, its error is returned.
	PlaceGrouped(ctx context.Context, o Order, revision int64) (attempts int, err error)
	// Order returns an order, or [ErrNotFound].
	Order(ctx context.Context, id int64) (Order, error)
	// DurableOrder is Order for an order of which a buyer is told for the first time. Its commit may still be
	// under way: the order is returned once a crash of the database cannot undo it.
	DurableOrder(ctx context.Context, id int64) (Order, error)
	// Ordered reports whether the user has a live order of a voucher.
	Ordered(ctx context.Context, voucherID, userID int64) (bool, error)
	// OrderUnderKey returns the user's live order of a voucher if it was placed under that key, or
	// [ErrNotFound].
	OrderUnderKey(ctx context.Context, voucherID, userID int64, key KeyHash) (Order, error)
	// OrdersOf lists up to limit orders of a user with an ID below before, newest first.
	OrdersOf(ctx context.Context, userID, before int64, limit int) ([]Order, error)
	// OrdersOfVoucher lists up to limit orders of a voucher with an ID below before, newest first.
	OrdersOfVoucher(ctx context.Context, voucherID, before int64, limit int) ([]Order, error)
	// Audit counts the orders of a voucher, or returns [voucher.ErrNotFound].
	Audit(ctx context.Context, voucherID int64) (Audit, error)
}

// Tx is a running transaction. It may defer a write until the next read, the next Flush or the
// commit, which then returns the write's error. So the row that all buyers wait for is locked as late
// and as briefly as possible.
type Tx interface {
	// Ordered reports whether the user has an order of the voucher.
	Ordered(ctx context.Context, voucherID, userID int64) (bool, error)
	// StockOf reads the current stock and its version.
	StockOf(ctx context.Context, voucherID int64) (stock, version int64, err error)

	// Flush sends the deferred writes.
	Flush(ctx context.Context) error

	// AtRevision has the decrements that follow fail with [voucher.ErrChanged] unless the voucher has that revision. So
	// nothing is sold by what an administrator has changed.
	AtRevision(revision int64)

	// Six ways to decrement the stock by one. They return [voucher.ErrNotFound] if there is no such
	// voucher.

	// Decrement decrements the stock if it is above 0. Otherwise it returns [voucher.ErrSoldOut].
	Decrement(ctx context.Context, voucherID int64) error
	// SetStock overwrites the stock.
	SetStock(ctx context.Context, voucherID, stock int64) error
	// DecrementVersion decrements the stock if its version is still the given one. Otherwise it
	// returns [ErrConflict], or [voucher.ErrSoldOut] if nothing is left.
	DecrementVersion(ctx context.Context, voucherID, version int64) error
	// DecrementFenced decrements the stock if it is above 0 and no newer fencing token has written.
	// Otherwise it returns [voucher.ErrSoldOut] or [ErrStale].
	DecrementFenced(ctx context.Context, voucherID int64, token uint64) error
	// DecrementRow decrements one of several counters if it is above 0. Otherwise it decrements another one. It returns
	// [voucher.ErrSoldOut] if all of them were empty in one look.
	DecrementRow(ctx context.Context, voucherID, row int64) error
	// TakeUnit takes a unit that no other transaction has locked; it looks from the given one on. If all that are left are
	// locked, it waits for one. It returns [voucher.ErrSoldOut] if none was left in one look.
	TakeUnit(ctx context.Context, voucherID, from int64) error

	// Insert inserts an order. With unique the database refuses a user's second order with
	// [ErrAlreadyOrdered].
	Insert(ctx context.Context, o Order, unique bool) error
}

// IDs generates order ids: positive, and never the same one twice.
type IDs interface {
	NextID(ctx context.Context) (int64, error)
}

// Room knows the passes of vouchers with a waiting room. Package room implements it.
type Room interface {
	// Check returns [ErrPassRequired] for a pass that memory knows not to be valid.
	Check(ctx context.Context, v *voucher.Voucher, userID int64, pass string) error
	// Use marks a pass as used by a request: no other request can use it until Done. The same request may use it again.
	// The error is [ErrPassRequired] or [ErrUnavailable].
	Use(ctx context.Context, v *voucher.Voucher, userID int64, pass, request string) error
	// Done says what became of a request that uses a pass. Without an order the pass can be used again.
	Done(ctx context.Context, v *voucher.Voucher, pass, request string, ordered bool)
}

// Lockers finds a lock mechanism by name. [lock.Registry] implements it.
type Lockers interface {
	Locker(name string) (lock.Locker, error)
}

// Vouchers reads vouchers cheaply. [voucher.Cache] implements it.
type Vouchers interface {
	// Voucher returns a voucher whose stock may be slightly out of date, or [voucher.ErrNotFound]. The
	// caller must not change it.
	Voucher(ctx context.Context, id int64) (*voucher.Voucher, error)
	// SoldOut records that the store has just been seen without stock.
	SoldOut(id int64)
	// Newer returns the voucher that the store was just seen with another revision of, or [voucher.ErrBusy].
	Newer(ctx context.Context, old *voucher.Voucher) (*voucher.Voucher, error)
}
