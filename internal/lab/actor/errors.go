package actor

import (
	"context"
	"errors"

	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// What can go wrong with an actor, besides what can with locks and orders.
var (
	// ErrDead: the process is no more. Whether it did what it was asked is unknown.
	ErrDead = errors.New("actor: the process is dead")
	// ErrPanicked: what was asked for ended in a panic, which was caught.
	ErrPanicked = errors.New("actor: panicked")
)

// Kind is what went wrong in an actor.
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
	Abandoned      Kind = "abandoned" // an injected fault: the holder walked away
	Injected       Kind = "injected"  // an injected fault
	Panicking      Kind = "panic"
	Other          Kind = "other"
)

// Error is what went wrong in an actor.
type Error struct {
	Kind Kind
	Text string
	// Refusal names the holder, where the kind is [NotAcquired] and it is known.
	Refusal *lock.NotAcquiredError `json:",omitempty"`
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Unwrap is the sentinel that was met in the actor.
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

// sentinels lists what an error can be, the more telling first: an error may be
// several, as work that was canceled because the lock was lost is. Of several
// sentinels of a kind the first stands for it.
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

// KindOf says what an error is; "" for nil.
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

// report makes an error fit to travel; nil stays nil.
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
