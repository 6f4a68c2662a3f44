package ledger

import "strconv"

// Keys are the names of the keys of one bucket of a voucher.
type Keys struct {
	// Meta is a hash with the fields [FieldEpoch] to [FieldEnd] and, where a voucher has several buckets, [FieldTo] and
	// [FieldFrom].
	Meta string
	// Users is a hash: user id -> the user's accepted order, see [Reserved]. It enforces one order per user, and stays
	// until the voucher is forgotten.
	Users string
	// Orders is the stream of accepted orders. A consumer acknowledges and deletes an entry once its orders are
	// persisted, so the stream holds only orders that are pending.
	Orders string
	// Dead is the stream of accepted orders that were rejected.
	Dead string
	// Tries is a hash: id of an entry of Orders -> the processes that began to write it alone, and have not finished.
	Tries string
}

// KeysOf returns the keys of a bucket of a voucher. The prefix is that of the installation, which the locks have too.
func KeysOf(prefix string, voucherID int64, bucket int) Keys {
	tag := strconv.FormatInt(voucherID, 10)
	if bucket > 0 {
		tag += "." + strconv.Itoa(bucket)
	}
	base := prefix + "adm:{" + tag + "}"
	return Keys{
		Meta: base, Users: base + ":users",
		Orders: base + ordersSuffix, Dead: base + ":dead", Tries: base + ":orders:tries",
	}
}

// ordersSuffix follows the name of Meta in that of Orders.
const ordersSuffix = ":orders"

// PreparedUsers is the name of the hash in which Users is prepared for an epoch.
func (k Keys) PreparedUsers(epoch int64) string {
	return k.Users + ":" + strconv.FormatInt(epoch, 10)
}

// FinalChannel is the channel on which the ids of a voucher's orders are published once they are final. A channel has
// no slot, so all buckets share one channel.
func FinalChannel(prefix string, voucherID int64) string {
	return KeysOf(prefix, voucherID, 0).Meta + ":done"
}

// BucketOf returns which of a voucher's buckets a user belongs to, from 0.
func BucketOf(userID int64, buckets int) int {
	if buckets <= 1 {
		return 0
	}
	// User ids often follow each other. Fibonacci hashing (Knuth, TAOCP 3, 6.4) spreads them, even if only every n-th
	// of them buys.
	return int(uint64(userID) * 0x9e3779b97f4a7c15 >> 32 % uint64(buckets))
}

// Group is the consumer group on Orders.
const Group = "orders"

// The fields of Meta.
const (
	// FieldEpoch is the database's epoch: even while orders are accepted, odd while none are.
	FieldEpoch = "epoch"
	// FieldSeq counts the decisions that changed something. Within an epoch it only grows.
	FieldSeq = "seq"
	// FieldStock is how many orders can still be accepted.
	FieldStock = "stock"
	// FieldReturned counts the reservations that were given back within the epoch. A script that takes an order out of
	// Users adds one to this field, and adds to seq. If an order that was accepted is gone and this field has not
	// grown, Redis has lost data, and the gate closes the voucher.
	FieldReturned = "back"
	// FieldArrived is the total of the stock that orders gave back in the database, as far as it has arrived here; no
	// field is 0. See return.lua.
	FieldArrived = "ret"
	// FieldExtra is how many orders the entries of Orders have beyond one each: the length of the stream and this field
	// together count the orders that are pending. It means nothing while the stream is empty.
	FieldExtra = "extra"
	// FieldBusy is 1 while a script changes several keys. A script that finds it set knows that an earlier one stopped
	// in its middle, and leaves the bucket to be rebuilt from the database.
	FieldBusy = "busy"
	// FieldGeneration is the generation of the pair of database and Redis (package pairing) under which the bucket was
	// closed or opened last. A process of an earlier generation has another database, and takes nothing out of the
	// bucket.
	FieldGeneration = "gen"
	// FieldBegin and FieldEnd are the sale's window, in ms of Redis' clock.
	FieldBegin = "begin"
	FieldEnd   = "end"
	// FieldPaused is 1 while the sale is paused, and FieldRevision the voucher's revision that says so.
	FieldPaused   = "paused"
	FieldRevision = "rev"
)

// The totals that buckets gave each other are fields of Meta too. A field's name is one of these prefixes and the
// number of the other bucket. Within an epoch the totals only grow. A voucher that is opened begins with none.
const (
	// FieldTo is the prefix of the total that this bucket has given to another one.
	FieldTo = "to:"
	// FieldFrom is the prefix of the total that has arrived here from another bucket. If the other bucket's FieldTo is
	// greater, the difference is in transit, and can still be sold.
	FieldFrom = "from:"
)
