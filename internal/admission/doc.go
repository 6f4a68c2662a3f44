// Package admission is the gate of the admission flow. It decides about orders in Redis, with a script that decides
// about a whole batch of orders in one round trip.
//
// # The way of an order
//
//  1. [Gate.Admit] answers from memory if it can: the sale is over, or was sold out a moment ago.
//  2. Otherwise the order joins the queue of its bucket. A voucher has one bucket unless it is
//     split. One round trip for each queue is under way at a time. Orders that arrive meanwhile are
//     batched into the next round trip; an order that arrives alone is sent at once (package batch).
//  3. admit.lua looks at the sale's window by Redis' clock, at the user's earlier order, at the stock
//     and at the number of pending orders. It appends the accepted orders to the bucket's stream, and
//     package fulfil carries them into the database.
//
// The id of an order is the id of its request, so a repeated request gets the same answer.
//
// # A reply that is lost
//
// The gate sends a batch again until a reply arrives, for at most [Config.DecisionTimeout]. Each call carries an
// expiry, after which the script refuses to act. So a call that was delayed on its way does not act after its buyers
// were told something else. A refusal is final once no earlier call can act any more.
//
// # States of a voucher
//
// The database has an epoch for each voucher, which is odd while the voucher is closed and even while it is open. Redis
// has a copy. Every call carries the epoch that its process believes in, and is refused under any other epoch. See the
// type lifecycle for how a process opens a voucher.
//
// docs/architecture.md (A voucher's gate) draws the states, and says what each answers.
//
// Some time after the end of its sale, when all orders are persisted and the stock balances, a process closes a voucher
// and marks it in the database as forgotten under the closed epoch ([Forgetter]). From then on only the database
// answers, and the data in Redis is removed. Each script that removes keys checks that Redis has that very epoch. A
// process that opens the voucher again closes it first, under the next odd epoch: that resets the mark, and no script
// that was meant for the old epoch acts any more.
//
// If the end of a forgotten voucher is moved, Admit opens it again. The database decides about the window: a voucher
// that is open in Redis with another window is rebuilt.
//
// # Buckets
//
// A voucher that needs more than one server is split into buckets. Each bucket has a share of the stock, its own users,
// stream and sequence numbers, in its own slot. A user belongs to one bucket, so that one script can enforce one order
// per user. All buckets have one epoch: a voucher is closed, drained and opened as a whole.
//
// A bucket without stock takes half of the stock of the richest bucket, in two steps that can be repeated
// (rebalance.go). Stock that has left one bucket and not arrived in the other is in transit, and any process can finish
// the transfer.
//
//	the bucket has no stock; read all buckets:
//	another bucket has stock        give, take, decide again
//	stock is in transit             take, then decide or read again
//	neither                         sold out, for all buckets
//
// One bucket alone never says that a voucher is sold out: only a reading of all buckets does. The result serves all
// queues of a process for [Config.RecheckEvery]. Then one order, of any bucket, asks again, so stock that is given back
// to one bucket is found by all.
//
// # Stock that is given back
//
// An order that is cancelled, expires or is refunded gives its unit back in the database. The same transaction records
// a return for Redis. The [Returner] of any process carries the return out, under the epoch of that transaction, with a
// total that only grows: see returns.go, return.lua and ADR 16.
//
// # Late money
//
// Money that comes for an order that was cancelled or expired takes a unit, if there is one and the user has no other
// order. [LateMoney] of any process asks for it as for a new order, with the id of the order itself, and a worker
// writes it: see late.go and ADR 16.
//
// # When Redis loses data
//
// A server that was emptied, restored from older data, or replaced by a replica that lagged has less data than before.
// Each call carries what its process has seen: the greatest sequence number, and the last of its own orders that was
// accepted. A process that had orders among the lost data had its last one there. So the first call of any such process
// detects the loss, even if other processes have sold more since. [Gate.Run] checks too, for vouchers that nobody buys
// at the moment. A bucket that has received a transfer also proves that the other bucket must have given it. A bucket
// that has lost data closes the whole voucher.
//
// If that process is dead as well, nobody remembers the lost data. With [Config.WaitReplicas] no buyer was told of it
// then, and package fulfil has not written it to the database.
//
// # Not guaranteed
//
// Orders that Redis loses before they are persisted are lost; how many that can be is the choice of Redis' durability.
// The database still refuses what was sold twice because of it, and such an order ends as a recorded rejection.
//
// For a voucher that is split:
//   - Orders are not served in the order of arrival. A user whose bucket has stock is served at once,
//     while others wait for a transfer.
//   - A bucket that cannot be reached keeps its stock. The other buckets are sold, and rebalance among
//     themselves. When they are empty, their users are told "unavailable", not "sold out".
//   - Each bucket may have its share of [Config.MaxPending] pending, rounded up. A bucket whose stream
//     is full refuses its own users while other buckets accept theirs.
//   - The window is checked by the clock of each bucket's server.
//
// # Reading order
//
// gate.go, decide.go, rebalance.go, lifecycle.go and rebuild.go, then voucher.go, states.go and cache.go, which they
// work on; lookup.go, scan.go, pending.go and node.go for lookups; audit.go, check.go, returns.go, late.go and
// forget.go. All that Redis holds is in package ledger, all scripts beside it.
package admission
