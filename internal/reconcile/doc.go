// Package reconcile compares what Redis and the database have of the vouchers that are sold by admission. It answers
// one question: does the stock add up? It changes nothing.
//
// # The equation
//
//	initial stock = stock in Redis + pending - unacknowledged + returning + live + drift
//	initial stock = stock in the database + live + drift of the database
//
//	pending         accepted orders in the streams
//	unacknowledged  those of them that the database has already confirmed: a worker has
//	                written them and not taken them out of the stream yet
//	live            orders that have a unit: confirmed, unpaid or paid
//	returning       what orders gave back in the database, and Redis was not told of yet
//	drift           what is left over; 0 if the voucher balances
//
// While a voucher is not open, or after it was forgotten, Redis has no part in the sale and only the second line
// counts.
//
// # Reading while orders are accepted
//
// Redis and the database cannot be read at one moment. So a [Reading] is Redis, then the database, then Redis again. An
// accepted order leaves stock plus pending in Redis as it was; a confirmed order leaves the database's stock first and
// the pending orders later. Within an epoch, stock plus pending in Redis therefore only falls, and the database's stock
// lies between the value before and the value after. What lies outside is drift. This holds for each bucket, if stock
// that the bucket has lent counts as its own, and so it holds for the sums. What orders give back is left out on both
// sides: the database counts it in a total, and Redis has the total of what has arrived.
//
// An imbalance counts only if it persists: two readings are exactly the same, or all of ten readings find one.
package reconcile
