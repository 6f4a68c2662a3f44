// Package trace records what happens to locks and to a voucher's stock while
// orders are placed, so that afterwards it can be told what went wrong and why.
//
// [Locker], [Store] and [Orders] are decorators: they note what passes through
// them and change nothing. An [Event] is one line of JSON, written to the file
// before the work goes on, so that a process that is killed leaves all that it did.
//
// Times are nanoseconds since 1970 by the machine's clock. Processes of one machine
// share it, which is what makes their events comparable; those of two machines are
// not.
package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Kind is what happened.
type Kind string

// The kinds of a lock's events, in the order in which a holder passes them.
const (
	Asked     Kind = "asked"     // an acquisition began
	Acquired  Kind = "acquired"  // it was granted: Asked is when it began
	Refused   Kind = "refused"   // it was not: Error says why, and Stored who had the key where that was said
	Lost      Kind = "lost"      // the holder was told that it holds no longer: Error says why
	Releasing Kind = "releasing" // a release begins; Stored is what the store held between Asked and now
	Released  Kind = "released"  // it ended: Asked is when it began, Error what it said
	Abandoned Kind = "abandoned" // the holder walked away and releases nothing
)

// The kinds of a transaction's events. A write is noted before it is made, and made at
// some moment from then to the end of the transaction.
const (
	Begun     Kind = "begun"     // a transaction began
	Checked   Kind = "checked"   // whether User has an order of Voucher: Found
	Read      Kind = "read"      // Stock and Version were read
	Write     Kind = "write"     // one is to be taken from the stock, how: Mode. Stock is what ModeUnguarded writes
	Insert    Kind = "insert"    // Order is to be written
	Committed Kind = "committed" // the transaction with the writes since its Begun: Asked is when the commit began
	Undone    Kind = "undone"    // it was rolled back, or its outcome is unknown: Error says why
)

// Ways in which a [Write] takes one from the stock: those of a voucher's policy.
const (
	ModeConditional = "conditional"
	ModeUnguarded   = "unguarded"
	ModeVersion     = "version"
	ModeFenced      = "fenced"
)

// Event is one thing that happened.
type Event struct {
	At    int64 `json:"at"`              // when it was over, ns since 1970
	Asked int64 `json:"asked,omitempty"` // when it began, where that is a moment of its own

	Process string `json:"process"` // the name of the process, such as "api-1"
	// Who acted, such as "buyer 17"; one and the same for all events of one order.
	Who string `json:"who,omitempty"`
	// Attempt numbers the orders placed within a process: it tells two orders of one
	// buyer apart. 0 where no order is placed.
	Attempt int64 `json:"attempt,omitempty"`
	Kind    Kind  `json:"kind"`
	// Error is why not; empty when all went well.
	Error string `json:"error,omitempty"`

	// What concerns locks.
	Mechanism string `json:"mechanism,omitempty"`
	Key       string `json:"key,omitempty"`
	Owner     string `json:"owner,omitempty"`
	Token     uint64 `json:"token,omitempty"`
	Shared    bool   `json:"shared,omitempty"` // a reader's
	// LeftMS is how long the lease still runs by the holder's own reckoning, in ms;
	// 0 or less: it has run out; nil: it has no end, or there is none.
	LeftMS *float64 `json:"left_ms,omitempty"`
	Stored *Stored  `json:"stored,omitempty"`

	// What concerns the stock. Voucher and User are in the events of locks, too, where
	// an order is placed.
	Voucher int64  `json:"voucher,omitempty"`
	User    int64  `json:"user,omitempty"`
	Found   bool   `json:"found,omitempty"`
	Order   int64  `json:"order,omitempty"`
	Stock   int64  `json:"stock,omitempty"`
	Version int64  `json:"version,omitempty"`
	Mode    string `json:"mode,omitempty"`
	// Tx numbers the transaction within its process.
	Tx int64 `json:"tx,omitempty"`
}

// Stored is what a lock's store held under a key.
type Stored struct {
	Owner string `json:"owner,omitempty"` // "" when it was free
	Token uint64 `json:"token,omitempty"`
	// TTLMS is how long the key had left, in ms; nil where it has no end or is free.
	TTLMS *float64 `json:"ttl_ms,omitempty"`
}

// Parse reads the events of one file or stream, one JSON object per line. A last
// line that was cut off by the death of its process is left out.
func Parse(data []byte) ([]Event, error) {
	var events []Event
	n := 0
	for line := range bytes.Lines(data) {
		n++
		line, whole := bytes.CutSuffix(line, []byte("\n"))
		if len(line) == 0 {
			continue
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			if !whole {
				break
			}
			return events, fmt.Errorf("trace: line %d: %w", n, err)
		}
		events = append(events, e)
	}
	return events, nil
}
