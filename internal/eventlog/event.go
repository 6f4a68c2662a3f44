// Package eventlog records the use of locks and of a voucher's stock while orders are placed, so that the laboratory
// can later show what went wrong and why.
//
// [Locker], [Store] and [Orders] are decorators: they record the calls that pass through them and change nothing. An
// [Event] is one line of JSON. It is written to the file before the work goes on, so the log of a killed process is
// complete up to its death.
//
// Times are nanoseconds since 1970 by the machine's clock. Only processes of one machine share that clock, so only
// their events can be compared.
package eventlog

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Kind is the type of an event.
type Kind string

// The kinds of a lock's events, in the order in which a holder passes them.
const (
	Acquiring Kind = "acquiring" // an acquisition began
	Acquired  Kind = "acquired"  // the lock was granted; the acquisition began at Began
	Refused   Kind = "refused"   // the lock was not granted: Error says why, Stored who held the key, if known
	Lost      Kind = "lost"      // the holder was told that it no longer holds the lock: Error says why
	Releasing Kind = "releasing" // a release began; Stored is what the store held between Began and At
	Released  Kind = "released"  // the release ended: it began at Began, Error is its result
	Abandoned Kind = "abandoned" // the holder dropped the lease without releasing it
)

// The kinds of a transaction's events. A write is recorded before it is sent; it takes effect at some moment between
// its event and the end of the transaction.
const (
	Begun      Kind = "begun"       // a transaction began
	Checked    Kind = "checked"     // Found says whether User already has an order of Voucher
	Read       Kind = "read"        // Stock and Version were read
	Write      Kind = "write"       // the stock is about to be decremented as Mode says; ModeUnguarded writes Stock
	Insert     Kind = "insert"      // Order is about to be inserted
	Committed  Kind = "committed"   // the transaction was committed; the commit began at Began
	RolledBack Kind = "rolled_back" // the transaction was rolled back, or its outcome is unknown: Error says why
)

// Ways in which a [Write] decrements the stock: those of a voucher's policy.
const (
	ModeConditional = "conditional"
	ModeUnguarded   = "unguarded"
	ModeVersion     = "version"
	ModeFenced      = "fenced"
	ModeRows        = "rows"
	ModeUnits       = "units"
	ModeGrouped     = "grouped"
)

// Event is one line of the log.
type Event struct {
	At    int64 `json:"at"`              // when it ended, in ns since 1970
	Began int64 `json:"began,omitempty"` // when it began, where it took time, in ns since 1970

	Process string `json:"process"` // the name of the process, such as "api-1"
	// Who is the actor, such as "buyer 17". It is the same in all events of one order.
	Who string `json:"who,omitempty"`
	// Attempt numbers the orders that a process places, so that two orders of one buyer can be told apart. 0 outside of
	// an order.
	Attempt int64 `json:"attempt,omitempty"`
	Kind    Kind  `json:"kind"`
	// Error is the text of the failure; "" means success.
	Error string `json:"error,omitempty"`

	// The fields of a lock's events.
	Mechanism string `json:"mechanism,omitempty"`
	Key       string `json:"key,omitempty"`
	Owner     string `json:"owner,omitempty"`
	Token     uint64 `json:"token,omitempty"`
	Shared    bool   `json:"shared,omitempty"` // a reader's lock
	// LeftMS is how long the lease is still valid by the holder's own reckoning, in ms: 0 or less means that it has
	// expired, nil that it does not expire or that there is none.
	LeftMS *float64 `json:"left_ms,omitempty"`
	Stored *Stored  `json:"stored,omitempty"`

	// The fields of a transaction's events. A lock's events also have Voucher and User when they belong to an order.
	Voucher int64  `json:"voucher,omitempty"`
	User    int64  `json:"user,omitempty"`
	Found   bool   `json:"found,omitempty"`
	Order   int64  `json:"order,omitempty"`
	Stock   int64  `json:"stock,omitempty"`
	Version int64  `json:"version,omitempty"`
	Mode    string `json:"mode,omitempty"`
	// Tx numbers the transactions of a process.
	Tx int64 `json:"tx,omitempty"`
}

// Stored is what the store of a lock holds under a key.
type Stored struct {
	Owner string `json:"owner,omitempty"` // "" if the key is free
	Token uint64 `json:"token,omitempty"`
	// TTLMS is the key's time to live, in ms; nil if it does not expire or is free.
	TTLMS *float64 `json:"ttl_ms,omitempty"`
}

// Parse reads the events of one file or stream, one JSON object per line. It leaves out a last line that is incomplete
// because its process died while writing it.
func Parse(data []byte) ([]Event, error) {
	var events []Event
	n := 0
	for line := range bytes.Lines(data) {
		n++
		line, complete := bytes.CutSuffix(line, []byte("\n"))
		if len(line) == 0 {
			continue
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			if !complete {
				break
			}
			return events, fmt.Errorf("eventlog: line %d: %w", n, err)
		}
		events = append(events, e)
	}
	return events, nil
}
