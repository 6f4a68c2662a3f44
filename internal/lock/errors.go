package lock

import (
	"errors"
	"fmt"
	"time"
)

// Errors of all mechanisms. Compare with errors.Is.
var (
	// ErrNotAcquired: somebody else holds the key and the wait limit passed.
	ErrNotAcquired = errors.New("lock: not acquired")
	// ErrNotHeld: this lease was already released.
	ErrNotHeld = errors.New("lock: not held")
	// ErrExpired: the lease ran out or the key was deleted; nobody holds it.
	ErrExpired = errors.New("lock: lease expired")
	// ErrLost: somebody else holds the key now.
	ErrLost = errors.New("lock: lost to another owner")
	// ErrUnavailable: the server could not be asked; the outcome is unknown.
	ErrUnavailable = errors.New("lock: server unavailable")
	// ErrInvalid: the key or the options are not acceptable.
	ErrInvalid = errors.New("lock: invalid")
	// ErrWrongKind: the key holds a value that is not this mechanism's.
	ErrWrongKind = errors.New("lock: key holds another kind of value")
	// ErrUnknown: no mechanism of that name exists.
	ErrUnknown = errors.New("lock: unknown mechanism")
	// ErrNotConfigured: the mechanism exists, but its server is not configured.
	ErrNotConfigured = errors.New("lock: mechanism not configured")
	// ErrReleased is the cause with which a lease's context ends on release.
	ErrReleased = errors.New("lock: released")
)

// NotAcquiredError is an [ErrNotAcquired] that names the holder.
type NotAcquiredError struct {
	Key string
	// Holder holds the key; empty where the mechanism does not know it.
	Holder Owner
	// TTL is how long the holder's lease still runs: 0 where unknown, [NoExpiry] where it has no end.
	TTL time.Duration
}

// Error names the key and, where they are known, the holder and the time left of its lease.
func (e *NotAcquiredError) Error() string {
	text := fmt.Sprintf("%v: %q", ErrNotAcquired, e.Key)
	if e.Holder != "" {
		text += " is held by " + string(e.Holder)
	}
	if e.TTL > 0 && e.TTL != NoExpiry {
		text += fmt.Sprintf(", for another %v", e.TTL)
	}
	return text
}

// Unwrap makes errors.Is(err, ErrNotAcquired) true.
func (e *NotAcquiredError) Unwrap() error { return ErrNotAcquired }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
