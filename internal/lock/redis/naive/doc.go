// Package naive is SET NX with an expiry, and a DEL that does not check the holder.
//
// # Algorithm
//
//	SET key owner NX PX ttl     OK: granted; nil: taken
//	DEL key
//
// The expiry frees a dead holder's lock. Waiters poll every few milliseconds.
//
// # States
//
// Free, or held until the lease ends. The holder is not told of the end.
//
// # What is not guaranteed
//
//   - That a release deletes the holder's own lock. A is paused for longer than its lease,
//     wakes up, and deletes the lock that B holds by then. C gets in beside B, B's DEL
//     deletes C's lock, and so on: one late holder keeps two inside for as long as there
//     are contenders.
//   - That nobody else gets the lock while the holder works: the lease is fixed
//     (opts.TTL, else [lock.DefaultTTL]) and nothing renews it.
//   - That a lost reply is harmless. Where the reply to SET is lost, the caller does not
//     know that it took the key, and a client that repeats the command is refused because
//     of its own first attempt. The key stays for its lease. To delete it on suspicion
//     would be worse: it may be another holder's.
//
// # How to see it break
//
// Sell a voucher under {"lock":"naive","scope":"voucher","stock":"unguarded",
// "lock_ttl_ms":100,"faults":[{"point":"critical-section","pause_ms":400, "probability":0.05}]}: it oversells. In the
// conformance suite, releases-only-own shows the wrong release and survives-long-hold the second holder.
package naive
