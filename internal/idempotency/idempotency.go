// Package idempotency stores the responses to requests, so that a repeated request gets the same response and is not
// executed again.
//
// A key is reserved before the work begins, together with the id of the resource that the request creates. When the
// work is done, the response is stored with the key.
//
//	no record ──Begin──▶ reserved ──Complete──▶ answered
//	                      │
//	   no record ◀─Cancel─┘
//
// A process that dies after Begin leaves a reservation without a response. Once that is stale, the next repetition
// takes it over (Begin again) and does the work *with the same id*, so it finds what the first attempt created and does
// not create it twice.
//
// An order of a voucher that is sold by admission keeps its key itself, and has no record here: see
// docs/adr/0004-idempotency-reserves-the-id.md.
package idempotency

import (
	"context"
	"crypto/sha256"
	"time"
)

// KeepAnswers is how long answers are kept.
const KeepAnswers = 24 * time.Hour

// MaxKey is the longest key a client may send, in bytes.
const MaxKey = 128

// Key is a client's idempotency key. Each user has a namespace of keys.
type Key struct {
	UserID int64 // 0 for an administrator
	Value  string
}

// Fingerprint is a hash of a request. It tells whether a second request under the same key is a repetition.
type Fingerprint [sha256.Size]byte

// Answer is the response to the client.
type Answer struct {
	Status                int
	ContentType, Location string
	Body                  []byte
}

// Record is the state of a key.
type Record struct {
	Fingerprint Fingerprint
	// ResourceID is the id reserved for what the request creates.
	ResourceID int64
	// Attempt numbers the reservations of the key for that resource, from 1. Each takeover adds one.
	Attempt   int
	StartedAt time.Time
	// Answer is nil while the request is being executed.
	Answer *Answer
}

// Store keeps records.
type Store interface {
	// Begin reserves key and reports whether it did. Of several concurrent callers, exactly one gets true.
	//
	//	record of key                                     result
	//	none                                              a new record with resourceID, true
	//	no answer, StartedAt before staleBefore, same fp  taken over: the record with its own ResourceID, true
	//	any other                                         that record, false
	Begin(ctx context.Context, key Key, fp Fingerprint, resourceID int64, now, staleBefore time.Time) (Record, bool, error)
	// Find returns the record of key and whether it exists.
	Find(ctx context.Context, key Key) (Record, bool, error)
	// Complete stores the answer to a reserved key. mine is the record that Begin returned; its Attempt works like a
	// lock's fencing token: an attempt that was taken over, or whose key already has an answer, changes nothing.
	Complete(ctx context.Context, key Key, mine Record, a Answer) error
	// Cancel deletes the reservation of the attempt mine: the request had no lasting effect and may be tried again
	// under the same key. After a takeover or an answer it changes nothing.
	Cancel(ctx context.Context, key Key, mine Record) error
}
