// Package idempotency keeps what a client was answered, so that a repetition of
// the same request gets the same answer and is not carried out again.
//
// A key is reserved before the work begins, together with the id that the thing
// to be created will have. When the work is done the answer is stored beside it.
// A process that dies in between leaves a reservation without an answer; once it
// is stale the next repetition takes it over and does the work again *with the
// same id*, so that whatever the first attempt managed to create is found rather
// than created twice.
//
// Where what was created has been lost since, the answer is taken back and the work is
// done again, with the same id as well.
package idempotency

import (
	"context"
	"crypto/sha256"
	"time"
)

// MaxKey is the longest key a client may send, in bytes.
const MaxKey = 128

// Key is a client's idempotency key. Different users' keys never meet.
type Key struct {
	UserID int64 // 0 for an administrator
	Value  string
}

// Fingerprint tells whether two requests under one key are the same request.
type Fingerprint [sha256.Size]byte

// Answer is what the client was told.
type Answer struct {
	Status                int
	ContentType, Location string
	Body                  []byte
}

// Record is what is known of a key.
type Record struct {
	Fingerprint Fingerprint
	// ResourceID is the id reserved for what the request creates.
	ResourceID int64
	// Attempt counts, from 1, who has reserved the key for that resource: each
	// takeover adds one, and each answer that is taken back.
	Attempt   int
	StartedAt time.Time
	// Answer is nil while the request is being carried out.
	Answer *Answer
}

// Store keeps records.
type Store interface {
	// Begin reserves key, and reports true, when there is no record of it or when
	// the record has no answer and its attempt started before staleBefore; the
	// record returned then has the ResourceID to use: resourceID, or the one
	// reserved by the attempt that was taken over. Of several callers at once
	// exactly one is told true. Otherwise it returns the record there is.
	//
	// A stale record with another fingerprint is returned, not taken over.
	Begin(ctx context.Context, key Key, fp Fingerprint, resourceID int64, now, staleBefore time.Time) (Record, bool, error)
	// Reopen takes back the answer that seen has, since what it says is not so any more,
	// and reserves the key for one more attempt: the record returned then. Of several
	// callers at once exactly one is told true. false: the record has changed since it
	// was seen, or is gone.
	Reopen(ctx context.Context, key Key, seen Record, now time.Time) (Record, bool, error)
	// Complete stores the answer to a reserved key. mine is what Begin returned: it
	// names the attempt, and does what a fencing token does for a lock. An attempt
	// that was taken over, or comes after another answer, changes nothing.
	Complete(ctx context.Context, key Key, mine Record, a Answer) error
	// Cancel forgets the reservation of the attempt that mine names: the request
	// had no lasting outcome and may be tried again under the same key. After a
	// takeover or an answer it changes nothing.
	Cancel(ctx context.Context, key Key, mine Record) error
	// Sweep forgets records whose attempt started before a time, at most limit of
	// them, and returns how many it forgot.
	Sweep(ctx context.Context, before time.Time, limit int) (int64, error)
}
