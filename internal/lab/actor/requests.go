package actor

import (
	"time"

	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// Lease names a lease that an actor holds, or held. It means something to that actor
// only. "" is no lease.
type Lease string

// Acquire asks for a lock.
type Acquire struct {
	Lock string // the mechanism
	Key  string
	Wait time.Duration
	TTL  time.Duration
	// Shared acquires as a reader, where the mechanism has readers.
	Shared bool
	// Owner names who asks: two acquisitions of one actor under the same name are by
	// the same owner, the second one being re-entry. "": by a stranger to all others.
	Owner string
	// Who is the name in the trace. Default: that of the actor.
	Who string
	// Timeout ends the context of the acquisition, and so, as in a program, that of
	// the lease, if the time is not over before. 0: none.
	Timeout time.Duration
	// Faults strike at the points of the acquisition and its release.
	Faults []lock.Fault
}

// Grant is an acquisition that was granted. Times are those of trace: nanoseconds
// since 1970. Where it was refused, Asked and At are there all the same.
type Grant struct {
	Lease     Lease
	Owner     lock.Owner
	Token     uint64
	Asked, At int64
}

// Waited is how long the answer took.
func (g Grant) Waited() time.Duration { return time.Duration(g.At - g.Asked) }

// Status is what a holder knows of its lease.
type Status struct {
	// Held: it was not given back, and the holder was not told that it is lost.
	Held bool
	// Remaining is how long it runs by the holder's clock; [lock.NoExpiry] where it
	// has no end.
	Remaining time.Duration
	// ToldAt is when the holder was told that it holds no longer, and Cause why; 0
	// and nil where it was not.
	ToldAt int64
	Cause  *Error
}

// Read reads a voucher's stock and leaves the transaction open, for a [Write] that
// names the reading.
type Read struct {
	Voucher int64
	// Lease is the lock under which it is done; "" none.
	Lease Lease
	// Deaf work does not run under the lease's context, as in a program that does not
	// look: the loss of the lock does not end it.
	Deaf bool
	// Who is the name in the trace. Default: that of the lease, or of the actor.
	Who string
}

// Reading is what was read.
type Reading struct {
	Tx             string // names the transaction that is open
	Stock, Version int64
	At             int64
}

// Write takes one from the stock and writes an order, in one transaction.
type Write struct {
	// Tx is the transaction of a [Reading]: its voucher, lease, deafness and name
	// are then this one's too. "": a transaction of its own.
	Tx string

	Voucher int64
	Lease   Lease
	Deaf    bool
	Who     string

	Mode voucher.Stock
	// Stock is written where the mode is unguarded, Version is compared where it is
	// version.
	Stock, Version int64
	// Order and its User are inserted; 0: none is. Unique has the database refuse a
	// user's second.
	Order, User int64
	Unique      bool
}

// Sell is what the service does to place an order, under a lock held or none: has
// this user ordered? (not asked where Unique is given), is there stock?, then take
// one and write the order, in one transaction.
type Sell struct {
	Voucher, User int64
	// Order is the order's id; 0 draws one.
	Order  int64
	Lease  Lease
	Deaf   bool
	Who    string
	Mode   voucher.Stock
	Unique bool
	// Pause lies between the last look and the first write. Nothing cuts it short.
	Pause time.Duration
}

// Sold is an order that was committed.
type Sold struct {
	Order int64
	// Stock is what was read before the write: 0 where the mode reads nothing.
	Stock int64
	At    int64
}

// Panic acquires and panics while it holds. The panic is caught where a web
// framework does, above the work.
type Panic struct {
	Acquire
	// Deferred: the release stands in a deferred call. Else it stands after the work
	// and is skipped.
	Deferred bool
	// Hold is how long the work goes well.
	Hold time.Duration
}

// Panicked is what became of work that panicked.
type Panicked struct {
	Grant
	Panic string // what was caught
}

// Nest acquires a key and, while it holds, calls a function that acquires it once
// more, under the context of the first lease, which carries its owner. Both are
// released.
type Nest struct {
	Acquire
	// InnerWait and InnerTTL are what the function asks for.
	InnerWait, InnerTTL time.Duration
	// Hold is how long the function works, where it gets in.
	Hold time.Duration
}

// Nested is what became of both acquisitions.
type Nested struct {
	Outer, Inner Grant
	// Refused is why the inner one was; nil where it was granted.
	Refused *Error
	// Released are the errors of the two releases, the inner one's first; nil where
	// it went well, or there was nothing to release.
	Released [2]*Error
}

// Loop acquires, holds and releases again and again, by several contenders that
// begin at the same moment.
type Loop struct {
	Acquire
	// Workers is how many contenders there are; 0 is 1. Each is a stranger to the
	// others, unless Owner is given, and is called "<Who> <n>" in the trace where
	// there are several.
	Workers int
	// Hold and Think are how long each one holds, and rests after its release, or
	// after a refusal.
	Hold, Think time.Duration
	// For is how long new acquisitions begin, Times how many each contender makes.
	// Whichever is over first; one of them must be given.
	For   time.Duration
	Times int
}

// Looped is what became of a loop.
type Looped struct {
	// Turns are the grants, in the order in which they were answered.
	Turns []Turn
	// Refused counts the acquisitions that failed, Unreleased the releases.
	Refused, Unreleased map[Kind]int
}

// Turn is one grant of a contender.
type Turn struct {
	Worker int
	Token  uint64
	// Asked is when the acquisition began, At when it was granted, Releasing and
	// Released when the release began and was over.
	Asked, At, Releasing, Released int64
}
