// Package lua is SET NX PX with a unique value, which a script compares and deletes in one step on release. It is the
// shortest lock here that never deletes another holder's lock.
//
// # Algorithm
//
//	SET key value NX GET PX ttl       nil or value: granted; else: taken
//	release.lua                       deleted, expired or another holder's
//
// The value is unique across processes (a random part and a counter) and new with each acquisition. The owner follows
// it, for error messages and people to read. Because NX comes with GET (Redis 7.0), a SET that is repeated after a lost
// reply finds its own value and not just "taken". Waiters poll every few milliseconds.
//
// # States
//
// Free, or held until the lease ends. Redis runs a script as one step, so a release has no intermediate state.
//
// # What is not guaranteed
//
//   - That nobody else gets the lock while the holder works. The lease is fixed
//     (opts.TTL, else [lock.DefaultTTL]) and nothing renews it: with work that takes
//     longer, or a pause of the process, there are two holders. They learn of it from
//     their releases ([lock.ErrExpired], [lock.ErrLost]) and not before.
//   - That a failed acquisition leaves nothing. Where there is no reply, or the context ends
//     first, the value is deleted once. A SET that Redis executes after that takes the key
//     for its lease, and nobody releases it.
//   - Re-entry: an owner that acquires again waits for itself.
//   - Order and wake-up: a free lock goes to the caller that asks first, and waiters
//     notice a release at their next poll.
//   - A correct error after a release whose reply was lost and that the client repeats by
//     itself: the repetition finds the key gone and returns ErrExpired, a harmless false
//     alarm. A release that the caller repeats after [lock.ErrUnavailable] is recognised.
//
// # How to see it break
//
// Sell a voucher under {"lock":"lua","scope":"voucher","stock":"unguarded",
// "lock_ttl_ms":100,"faults":[{"point":"critical-section","pause_ms":400, "probability":0.05}]}: it oversells, though
// no release is wrong. In the conformance suite, survives-long-hold shows it.
package lua
