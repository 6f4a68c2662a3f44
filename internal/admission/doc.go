// Package admission is the gate of the flow admission: one decision in Redis, by a
// script that decides about a whole batch of buyers in one round trip.
//
// # A buyer's way
//
// [Gate.Admit] answers from memory where it can: the sale is over, or was sold out a
// moment ago. Otherwise the order joins its voucher's line. One round trip per voucher
// is under way at a time; who comes meanwhile rides the next one together with all
// others, and who comes alone goes at once. admit.lua looks at the window (by Redis'
// clock), at the user's earlier order, at the stock and at how many orders are on
// their way, and appends what it accepts to the voucher's stream. The order's id is
// the request's: a repetition is answered the same.
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
// # Redis forgets
//
// A server that was emptied, restored from older data, or replaced by a replica that
// lagged, knows less than it did. Each call carries what its process has seen: the
// greatest sequence number, and the last order of its own that was accepted. A process
// that had orders in what was forgotten had its last one there; so the first call of
// any such process finds out, even where others have sold on in between. [Gate.Run]
// looks too, for vouchers nobody buys at the moment.
//
// # Not guaranteed
//
// What Redis forgot before it was persisted is lost: how much that can be is the
// choice of Redis' durability. The database still refuses whatever was sold twice
// because of it, and such an order ends as a recorded rejection.
package admission
