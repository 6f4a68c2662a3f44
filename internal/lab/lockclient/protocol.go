package lockclient

import (
	"context"
	"errors"
	"time"

	"seckill/internal/lab/flawed"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// Request is what the child is asked for. Its number is for its cancellation.
type Request[P any] struct {
	ID   int64
	With P
}

// Reply may have a result together with an error.
type Reply[R any] struct {
	Result R
	Error  *Error
}

// noResult is the result of a request that has none.
type noResult = struct{}

// Lease names a lease that a client holds, or held. Only that client knows the name. "" is no lease.
type Lease string

// Acquire asks for a lock.
type Acquire struct {
	Lock string // the mechanism
	// Program replaces the mechanism by a program of the documents, if its mistake is in the lock.
	Program flawed.Name
	Key     string
	Wait    time.Duration
	TTL     time.Duration
	// Shared acquires as a reader, if the mechanism has readers.
	Shared bool
	// Owner names the owner: two acquisitions of one client under the same name have the same owner, and the second one
	// is re-entry. "": an owner of its own.
	Owner string
	// Who is the name in the event log. Default: that of the client.
	Who string
	// Timeout ends the context of the acquisition and, as in a program, that of the lease. 0: none.
	Timeout time.Duration
	// Faults strike at the points of the acquisition and its release.
	Faults []lock.Fault
}

// Grant is the result of an acquisition. Times are nanoseconds since 1970. If the lock was refused, Asked and At are
// set all the same.
type Grant struct {
	Lease     Lease
	Owner     lock.Owner
	Token     uint64
	Asked, At int64
}

// Waited is the time until the answer.
func (g Grant) Waited() time.Duration { return time.Duration(g.At - g.Asked) }

// Read reads a voucher's stock and leaves the transaction open, for a [Write] that names the reading.
type Read struct {
	Voucher int64
	// Lease is the lock under which it is done; "": none.
	Lease Lease
	// IgnoreLoss runs the work without the lease's context, as in a program that does not check: the loss of the lock
	// does not end it.
	IgnoreLoss bool
	// Who is the name in the event log. Default: that of the lease, or of the client.
	Who string
}

// Reading is what was read.
type Reading struct {
	Tx             string // names the open transaction
	Stock, Version int64
	At             int64
}

// Write takes one from the stock and inserts an order, in one transaction.
type Write struct {
	// Tx is the transaction of a [Reading], whose voucher, lease, IgnoreLoss and name are then used. "": a transaction
	// of its own.
	Tx string

	Voucher    int64
	Lease      Lease
	IgnoreLoss bool
	Who        string

	Mode voucher.Stock
	// Stock is written if the mode is unguarded, Version is compared if it is version.
	Stock, Version int64
	// Order and its User are inserted; 0: no order is. Unique makes the database refuse a user's second order.
	Order, User int64
	Unique      bool

	// Gap is between taking from the stock and inserting the order. Apart commits the two separately, as where no
	// transaction was begun. Only a write with a transaction of its own can be apart.
	Gap   time.Duration
	Apart bool
}

// Sell places an order as the service does, under a lock or without one. It checks whether the user has ordered (unless
// Unique is set) and whether there is stock, then takes one and inserts the order, in one transaction.
type Sell struct {
	Voucher, User int64
	// Order is the order's id; 0 generates one.
	Order      int64
	Lease      Lease
	IgnoreLoss bool
	Who        string
	Mode       voucher.Stock
	Unique     bool
	// Pause is between the last check and the first write. Nothing cuts it short.
	Pause time.Duration
}

// Sold is an order that was committed.
type Sold struct {
	Order int64
	// Stock is what was read before the write: 0 if the mode reads nothing.
	Stock int64
	At    int64
}

// Panic acquires, and panics while it holds the lock. The panic is recovered above the work, as in a web framework.
type Panic struct {
	Acquire
	// Deferred puts the release in a deferred call. Otherwise it comes after the work and is skipped.
	Deferred bool
	// Hold is how long the work takes until it panics.
	Hold time.Duration
}

// Panicked is the result of work that panicked.
type Panicked struct {
	Grant
	Panic string // the text of the panic
}

// Errors of a client, in addition to those of locks and orders.
var (
	// ErrDead means that the process has ended. Whether it did what it was asked is unknown.
	ErrDead = errors.New("lockclient: the process is dead")
	// ErrPanicked means that the request panicked, and that the panic was recovered.
	ErrPanicked = errors.New("lockclient: panicked")
)

// Kind says what went wrong in a client.
type Kind string

// The kinds.
const (
	NotAcquired    Kind = "not-acquired"
	NotHeld        Kind = "not-held"
	Expired        Kind = "expired"
	Lost           Kind = "lost"
	Unavailable    Kind = "unavailable"
	Canceled       Kind = "canceled"
	Deadline       Kind = "deadline"
	Stale          Kind = "stale"
	SoldOut        Kind = "sold-out"
	AlreadyOrdered Kind = "already-ordered"
	Conflict       Kind = "conflict"
	Invalid        Kind = "invalid"
	Unsupported    Kind = "unsupported"
	Abandoned      Kind = "abandoned" // an injected fault: the holder abandoned the lock
	Injected       Kind = "injected"  // an injected fault
	Panicking      Kind = "panic"
	Other          Kind = "other"
)

// Error is an error of a client.
type Error struct {
	Kind Kind
	Text string
	// Refusal names the holder, if the kind is [NotAcquired] and the holder is known.
	Refusal *lock.NotAcquiredError `json:",omitempty"`
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the sentinel of the kind.
func (e *Error) Unwrap() error {
	if e == nil {
		return nil
	}
	if e.Refusal != nil {
		return e.Refusal
	}
	for _, s := range sentinels() {
		if s.kind == e.Kind {
			return s.err
		}
	}
	return nil
}

type sentinel struct {
	kind Kind
	err  error
}

// sentinels lists what an error can be, the more specific first: an error may be several, for example work that was
// cancelled because the lock was lost. Of several sentinels of a kind the first one is used.
func sentinels() []sentinel {
	return []sentinel{
		{Panicking, ErrPanicked},
		{Abandoned, lock.ErrAbandoned},
		{Injected, lock.ErrInjected},
		{Stale, order.ErrStale},
		{Conflict, order.ErrConflict},
		{SoldOut, voucher.ErrSoldOut},
		{AlreadyOrdered, order.ErrAlreadyOrdered},
		{Lost, lock.ErrLost},
		{Expired, lock.ErrExpired},
		{NotHeld, lock.ErrNotHeld},
		{NotAcquired, lock.ErrNotAcquired},
		{Invalid, lock.ErrInvalid},
		{Invalid, lock.ErrUnknown},
		{Invalid, lock.ErrNotConfigured},
		{Invalid, lock.ErrWrongKind},
		{Invalid, voucher.ErrInvalid},
		{Invalid, voucher.ErrNotFound},
		{Unavailable, lock.ErrUnavailable},
		{Unavailable, order.ErrUnavailable},
		{Unsupported, errors.ErrUnsupported},
		{Deadline, context.DeadlineExceeded},
		{Canceled, context.Canceled},
	}
}

// KindOf returns the kind of an error; "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	for _, s := range sentinels() {
		if errors.Is(err, s.err) {
			return s.kind
		}
	}
	return Other
}

// report converts an error for the reply; nil stays nil.
func report(err error) *Error {
	if err == nil {
		return nil
	}
	e := &Error{Kind: KindOf(err), Text: err.Error()}
	if refusal, ok := errors.AsType[*lock.NotAcquiredError](err); ok && e.Kind == NotAcquired {
		e.Refusal = refusal
	}
	return e
}
