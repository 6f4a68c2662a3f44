// Package naive is SETNX with an expiry, and a DEL that does not look.
//
// # Algorithm
//
//	SET key owner NX PX lease     OK: ours; nil: taken
//	DEL key
//
// The expiry frees a dead holder's lock. Who waits asks again every few
// milliseconds.
//
// # States
//
// Free, or held until the lease ends. The holder is not told of the end.
//
// # What is not guaranteed
//
//   - That a release is the holder's. A, paused for longer than its lease, wakes
//     up and deletes the lock that B has by now; C gets in beside B; B's DEL then
//     deletes C's lock, and so on down the line. One late holder is enough to
//     keep a pair inside for as long as there are contenders.
//   - That nobody else gets in while the holder works: its lease is fixed
//     (opts.TTL, else [lock.DefaultTTL]) and nothing renews it.
//   - That a lost reply is harmless. If the answer to SET is lost, nobody knows
//     that the key was taken; a client that repeats the command is refused by its
//     own first try. The key stays for its lease. Deleting it on suspicion would
//     be worse: it might be somebody else's.
//
// # How to see it break
//
// Sell a voucher under {"lock":"naive","scope":"voucher","stock":"unguarded",
// "lock_ttl_ms":100,"faults":[{"point":"critical-section","pause_ms":400,
// "probability":0.05}]}: it oversells. In the conformance suite it is
// releases-only-own that shows the wrong release, and survives-long-hold the
// second holder.
package naive
