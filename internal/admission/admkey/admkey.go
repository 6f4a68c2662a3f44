// Package admkey names what the flow admission keeps in Redis: the gate writes it,
// the consumers read it.
//
// A voucher's stock is in one bucket or, where one server is not enough for it, in
// several. All keys of a bucket have the same hash tag and so lie in one slot of a
// Redis Cluster; those of different buckets mostly do not. Each user belongs to one
// bucket, so what one bucket knows of a user is all there is.
package admkey

import "strconv"

// Keys names the keys of one bucket of a voucher.
type Keys struct {
	// Meta is a hash with the fields Epoch to End below and, where there are several
	// buckets, To and From.
	Meta string
	// Users is a hash: user id -> id of the user's accepted order. It is the memory of
	// one order per user, and stays.
	Users string
	// Orders is the stream of accepted orders. An entry that is done with is
	// acknowledged and deleted, so the stream holds what is on its way and no more.
	Orders string
	// Dead is the stream of orders that were accepted and could not be carried out.
	Dead string
}

// Bucket is the one of a voucher's buckets that a user belongs to, from 0.
func Bucket(userID int64, buckets int) int {
	if buckets <= 1 {
		return 0
	}
	// Users' ids often follow each other; Fibonacci hashing (Knuth, TAOCP 3, 6.4) spreads
	// them, also where every n-th of them buys.
	return int(uint64(userID) * 0x9e3779b97f4a7c15 >> 32 % uint64(buckets))
}

// Of names the keys of a bucket of a voucher. The prefix is the installation's, as of
// the locks.
func Of(prefix string, voucherID int64, bucket int) Keys {
	tag := strconv.FormatInt(voucherID, 10)
	if bucket > 0 {
		tag += "." + strconv.Itoa(bucket)
	}
	base := prefix + "adm:{" + tag + "}"
	return Keys{Meta: base, Users: base + ":users", Orders: base + ":orders", Dead: base + ":dead"}
}

// Fresh names the hash in which Users is prepared for an epoch.
func (k Keys) Fresh(epoch int64) string { return k.Users + ":" + strconv.FormatInt(epoch, 10) }

// Group is the consumer group on Orders.
const Group = "orders"

// The fields of Meta.
const (
	// Epoch is that of the database: even while orders are accepted, odd while none are.
	Epoch = "epoch"
	// Seq counts the decisions that changed something. Within an epoch it only grows.
	Seq = "seq"
	// Stock is what can still be accepted.
	Stock = "stock"
	// Back counts the reservations that were given back within the epoch. Whoever takes
	// an order out of Users adds one to Back, Seq and Stock in the same script: the gate
	// takes an order that it saw accepted and that is gone without Back having grown for
	// a sign that Redis has forgotten something, and closes the voucher.
	Back = "back"
	// Begin and End are the sale's window, in ms of Redis' clock.
	Begin = "begin"
	End   = "end"
)

// The ledger of what buckets gave each other, in Meta too: the fields are these and the
// number of the other bucket. Within an epoch the numbers only grow, and a voucher that
// is opened begins with none.
const (
	// To is how much this bucket has given to the other one, ever.
	To = "to:"
	// From is how much of that which the other one has given has come here. What is in
	// the other's To and not in here is in transit: it can still be sold.
	From = "from:"
)

// The fields of an entry of Orders. When it was accepted its id says, which begins with
// the time in ms of Redis' clock.
const (
	EntryOrder = "o" // the order's id
	EntryUser  = "u" // the user's id
	EntryEpoch = "e" // the epoch it was accepted under
	EntrySeq   = "s" // the number of its decision
	EntryTrace = "p" // the traceparent of the call that accepted it; absent where nobody traces
)

// The further fields of an entry of Dead.
const (
	DeadReason = "reason"
	DeadDetail = "detail" // the same in a sentence
	DeadFrom   = "from"   // the id of the entry of Orders
)
