package lockclient

import (
	"context"
	"errors"

	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

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

// sentinels lists what an error can be, the more specific first: an error may be several, for
// example work that was cancelled because the lock was lost. Of several sentinels of a kind
// the first one is used.
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
