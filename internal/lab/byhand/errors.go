package byhand

import (
	"errors"
	"fmt"
)

// Errors of a bench.
var (
	ErrInvalid = errors.New("bench: invalid")
	// ErrNotNow means that a move is not possible now, as a release by a process that holds nothing.
	ErrNotNow = errors.New("bench: that is not possible now")
)

// Error says what is wrong with a setup, a move, a script or a file: an [ErrInvalid]. The reason and its values are for
// a page that speaks another language than the text.
type Error struct {
	Reason Reason
	Values map[string]any
	text   string
}

// Error implements error.
func (e *Error) Error() string { return e.text }

// Unwrap is [ErrInvalid].
func (e *Error) Unwrap() error { return ErrInvalid }

// Reason is what is wrong.
type Reason string

// The reasons, and their values.
const (
	WrongLock      Reason = "lock"      // lock
	WrongProcesses Reason = "processes" // n, least, most
	WrongLease     Reason = "lease"     // n, least, most
	WrongWait      Reason = "wait"      // n, least, most
	WrongRenewal   Reason = "renew"     // lock
	WrongReplica   Reason = "replica"   // lock
	WrongMove      Reason = "move"      // move
	WrongStep      Reason = "step"      // step
	WrongTime      Reason = "time"      // most
	TooManySteps   Reason = "steps"     // n, most
	NotJSON        Reason = "json"      // why
	WrongFormat    Reason = "format"
	WrongVersion   Reason = "version" // version, known
	TooLarge       Reason = "size"    // most, in KiB
	NoSteps        Reason = "empty"
)

// Reasons lists them.
func Reasons() []Reason {
	return []Reason{
		WrongLock, WrongProcesses, WrongLease, WrongWait, WrongRenewal, WrongReplica, WrongMove, WrongStep, WrongTime,
		TooManySteps, NotJSON, WrongFormat, WrongVersion, TooLarge, NoSteps,
	}
}

// values are those of a reason.
type values = map[string]any

func wrong(reason Reason, v values, format string, args ...any) *Error {
	return &Error{reason, v, fmt.Sprintf(format, args...)}
}
