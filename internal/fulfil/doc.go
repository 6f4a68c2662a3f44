// Package fulfil writes accepted orders from their streams in Redis into the database. Each entry of a stream is
// delivered at least once and written exactly once.
//
// # The states of an entry
//
//	        read                    transaction              acknowledge.lua
//	unread ──────────▶ under way ─────────────────▶ written ─────────────────▶ gone
//	   ▲                 │ ▲  │
//	   │ split           │ │  │ the fault is proven
//	   └─────────────────┤ │  │ to be the order's own             dead_letter.lua
//	                     │ │  └────────────────────────▶ refused ─────────────────▶ dead letter
//	 it fails, or may    │ │ its turn comes
//	 not be tried now    ▼ │
//	             waiting to be retried
//
//	state                  the entry is                                          the order is
//	unread                 in its stream; no worker has it                       accepted
//	under way              pending at a worker, which writes it                  accepted
//	waiting to be retried  pending at a worker, in its retry queue               accepted
//	written                pending at a worker, which acknowledges it            in the database
//	refused                pending at a worker, which makes it a dead letter     in the database, as "rejected"
//	gone                   deleted                                               in the database
//	dead letter            deleted; a copy says why                              in the database; its unit is for sale again
//
// A worker that dies, or a call of Redis that fails, takes an entry back: what is pending is delivered again, to the
// same worker or after a while to another one that claims it, and is under way there. The order's id is the primary
// key, so a second write changes nothing. For the same reason a worker does no harm that was paused for an hour and
// then goes on with its batch. An entry with several orders that cannot all be written is split: each gets an entry of
// its own.
//
// Each process runs one or more workers. Each worker is a consumer of the group "orders" on the streams of the vouchers
// that are sold by admission. A voucher that is split has one stream per bucket. A worker reads up to a batch of
// entries from all streams that may have some (watch_list.go says which), writes them with contract.AdmissionStore in
// one transaction, and only then deletes the entries.
//
// # Failures
//
// An order is rejected only if the failure is proven to be its own. Every other failure is an outage, however long it
// lasts.
//
//	failure                                     reaction
//	the database does not answer, or refuses    set the orders aside, read no new ones, and try one for ever, with
//	everything (disk full, password changed)    growing pauses. Once it is written, write the others in batches
//	a batch fails                               split it by voucher, then in halves down to the order that fails; write
//	                                            the others
//	one of the several orders of an entry       replace the entry by one entry for each order; only these are retried,
//	fails, or the entry was delivered           counted or rejected
//	suspiciously often
//	the database names the order's own fault    reject it
//	(already ordered, sold out, ...)
//	the database objects to an order in         queue it for a retry. A failure counts if another order of the same
//	another way, or writing it panics           voucher and bucket was written since the previous one. Reject it after
//	                                            MaxFailures counted failures. Without such orders it waits: the database
//	                                            may refuse all of them
//	several attempts at one voucher's orders    try no more of its orders, set the rest aside, and try some every 2 s,
//	fail in a row, or two that wait for its     those first that have failed the fewest times. Once one is written,
//	row to be unlocked                          write the others in batches. Unless the database objects to the orders,
//	                                            read no new ones of the voucher meanwhile
//	an entry fails, and the error says nothing  queue it for a retry, however often others are written
//	about it
//	a rejection cannot be recorded              offer the order to the database again later
//	an entry crashes the process, again and     Redis counts deliveries. After MaxDeliveries try the entry alone. If
//	again                                       others were written just before, record in Redis when this process
//	                                            begins the attempt and when it ends it. Reject the entry once
//	                                            MaxAttempts processes have begun one and are dead, by their heartbeats:
//	                                            it crashed them
//	a failover promotes a replica that lacks    twice a second, count what is pending under the workers' names. A worker
//	the latest acknowledgements; no call fails  that knows of fewer entries replays all of them
//	a process dies                              its heartbeat key expires after 1.5 s, and others claim its entries at
//	                                            once. If it was only slow, both write the same rows
//	a node of a Redis cluster hangs             a call times out after half a second, then the node is not called for
//	                                            two seconds. The streams on other nodes are not affected
//
// A rejection has two steps. First the order's row says "rejected"; that decides against any other worker that still
// has the entry. Then one script returns the reservation, writes the dead letter and deletes the entry. If the process
// dies between the two, the next delivery finds the row and repeats the second step, which is idempotent.
//
// An order that takes a unit again, because its money came late, is in the database already. It is written if its money
// is still undecided. Otherwise it is rejected, without a row: the money was refunded, and the reservation goes back.
//
// An order may be accepted twice: its reply was lost, it was written, cancelled and given back, and then the call was
// repeated. The second entry has another time of acceptance than the order's row. Its reservation goes back in the same
// way.
//
// # Not guaranteed
//
//   - Orders are not written in the order of their acceptance.
//   - An order of a voucher that nobody else buys, accepted by a process that dies before its workers have read it, waits
//     until a discovery looks at its stream: with 10,000 vouchers on sale up to 20 s.
//   - The reason in a dead letter is unspecific ([Before]) if the process died between the two steps of the rejection.
//   - An entry that crashes its process and is the only entry crashes every process that tries it. So does one that takes
//     more than a second to do so.
package fulfil
