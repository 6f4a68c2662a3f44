// Package fulfil carries accepted orders from their streams in Redis into the
// database: at least once delivered, exactly once written.
//
// # An entry's way
//
//	accepted ──▶ stream ──XREADGROUP──▶ held by a worker ──▶ transaction ──▶ acknowledged and deleted
//	                                          │
//	                                          └─ refused for good ─▶ row "rejected" ─▶ dead letter, reservation given back
//
// Each process runs one worker or several, and each is a consumer of the group
// "orders" on the streams of all vouchers that are sold by admission; one that is
// split has a stream for each bucket. A worker reads what is there, up to a batch of
// all streams that flow, has [order.Shelf] write the batch in one transaction, and
// only then takes the entries out of the streams. Whatever dies in between, the entry
// is delivered again, to the same worker or, after a while, to another one that
// claims it; the order's id is the primary key, so writing it again changes nothing.
// For the same reason a worker that was stopped for an hour and wakes with a batch in
// its hands does no harm.
//
// # When something fails
//
//   - The database does not answer, or not clearly: the same batch again, with
//     growing pauses, for ever. That is nobody's fault and costs nobody an order.
//   - A node of a Redis cluster hangs: it gets half a second for an answer, and is then
//     left alone for two. The streams on the other nodes go on.
//   - The batch is refused: it is split in halves until the entry that spoils it is
//     alone. If it is refused for good (the user has another order, nothing is left,
//     ...) it is rejected.
//   - An entry alone fails in a way that is not foreseen: it is put aside and tried
//     again a bounded number of times, then rejected. If the database cannot even
//     write down the rejection, the fault is not the entry's, and it stays.
//   - An entry ends the process, again and again: Redis counts deliveries. After a few
//     the entry is tried alone, and each such try is counted before it begins.
//
// A rejection is two steps: first the order's row says "rejected", which decides it
// against anybody who may still hold the entry, then one script gives the reservation
// back, writes the dead letter and removes the entry. If the process dies between the
// two, the next delivery finds the row and does the second step, which does nothing
// the second time.
//
// # What is not promised
//
// Orders are not written in the order of their acceptance. A dead letter can be
// missing the reason where the process died between the two steps.
package fulfil
