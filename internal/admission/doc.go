// Package admission is the gate of the flow admission: one decision in Redis, by a
// script that decides about a whole batch of buyers in one round trip.
//
// # A buyer's way
//
// [Gate.Admit] answers from memory where it can: the sale is over, or was sold out a
// moment ago. Otherwise the order joins the line of its bucket, of which a voucher has
// one unless it is split. One round trip for each line is under way at a time; who comes
// meanwhile rides the next one together with all others, and who comes alone goes at
// once. admit.lua looks at the window (by Redis' clock), at the user's earlier order, at
// the stock and at how many orders are on their way, and appends what it accepts to the
// bucket's stream. The order's id is the request's: a repetition is answered the same.
//
// Who hangs up leaves the line: at once where it has not moved for some milliseconds,
// else when his batch is about to be sent, which is as soon.
//
// # An answer that is lost
//
// The batch is asked for again until an answer comes, at most for [Config.Patience].
// Every call says until when it may act, so that a call that was held up on its way
// does not act when its buyers were told something else; a refusal is final once no
// earlier call may act any more.
//
// # States of a voucher
//
//	closed --Close, drain, Open, fill--> open --Redis forgot--> closed
//
// The database has the epoch, odd while closed and even while open, Redis a copy; a
// call carries the one it believes in and is refused under any other. To open means:
// close the epoch in the database, then in Redis; wait until the orders on their way
// are persisted; open the next epoch in the database, which makes whatever still turns
// up from earlier ones stale; copy stock and users from the database; open in Redis.
// A lock spares two processes the same work. What keeps them apart is the epoch.
//
// # Buckets
//
// A voucher that one server is not enough for is split: each bucket has a share of the
// stock, its own users, stream and sequence, in a slot of its own. A user belongs to one
// bucket, by his id, so that one-per-user stays the business of one script. There is one
// epoch for all: a voucher is closed, drained and opened as a whole, and it is open when
// all of its buckets are, under the database's epoch.
//
// A bucket that is empty draws from the richest, half of what that has, in two steps that
// may be repeated: give.lua takes it out there and writes down how much that bucket has
// given to this one in the epoch; take.lua puts in here what was not taken in yet, and
// writes down the same number. The difference is in transit. Whoever looks sees it and
// may finish it: a process that dies between the steps loses nothing.
//
//	stock here 0 --look--> stock elsewhere   --give, take--> decide again
//	                   --> in transit        --take--> look again, or decide
//	                   --> neither, anywhere --> sold out, for all buckets
//
// Sold out is what a look at all buckets has found, never one bucket alone. Such a look
// serves all lines of a process for [Config.Recheck]; then one buyer, of whatever bucket,
// is let through to look again. What is given back to one bucket is so found by all.
//
// # Redis forgets
//
// A server that was emptied, restored from older data, or replaced by a replica that
// lagged, knows less than it did. Each call carries what its process has seen: the
// greatest sequence number, and the last order of its own that was accepted. A process
// that had orders in what was forgotten had its last one there; so the first call of
// any such process finds out, even where others have sold on in between. [Gate.Run]
// looks too, for vouchers nobody buys at the moment. Of two buckets, the one that took
// something in is a witness against the one that does not know any more that it gave.
// One bucket that has forgotten something closes the voucher.
//
// # Not guaranteed
//
// What Redis forgot before it was persisted is lost: how much that can be is the
// choice of Redis' durability. The database still refuses whatever was sold twice
// because of it, and such an order ends as a recorded rejection.
//
// Of a voucher that is split:
//   - Nothing says who is served first: a buyer whose bucket has stock is served at once,
//     while others wait for a draw.
//   - A bucket out of reach keeps its stock. The others are sold, and draw from each other;
//     when they are empty, their buyers are told unavailable, and not sold out.
//   - Each bucket may have its share of [Config.MaxPending] on its way, rounded up. One whose
//     stream is full refuses its own users while others accept theirs.
//   - The window is by the clock of each bucket's server.
package admission
