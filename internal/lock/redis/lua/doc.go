// Package lua is SET NX PX with a value of one's own, which a release compares
// and deletes in one script.
//
// # Algorithm
//
//	SET key value NX GET PX lease     nil or value: ours; else: taken
//	release.lua                       deleted, expired or somebody else's
//
// The value is unique across processes (a random part and a counter) and new with
// each acquisition, followed by the owner for a human, or an error, to read.
// Since NX comes with GET (Redis 7.0), a repeated SET whose first reply was lost
// finds its own value and not just "taken". Who waits asks again every few
// milliseconds.
//
// # States
//
// Free, or held until the lease ends. Redis runs a script as one step, so that a
// release has no state in between: nobody ever deletes another's lock.
//
// # What is not guaranteed
//
//   - That nobody else gets in while the holder works. The lease is fixed
//     (opts.TTL, else [lock.DefaultTTL]) and nothing renews it: work that takes
//     longer, or a pause of the process, gives two holders. They learn of it when
//     they release ([lock.ErrExpired], [lock.ErrLost]) and not before.
//   - Re-entry: an owner that acquires again waits for itself.
//   - Order and wake-up: whoever asks at the right moment gets in, and a
//     release is noticed at the next poll.
//   - A release whose reply was lost, and that the client repeats by itself,
//     finds its own work done and says ErrExpired: a false alarm, and harmless.
//     One that the caller repeats after [lock.ErrUnavailable] is told apart.
//
// # How to see it break
//
// Sell a voucher under {"lock":"lua","scope":"voucher","stock":"unguarded",
// "lock_ttl_ms":100,"faults":[{"point":"critical-section","pause_ms":400,
// "probability":0.05}]}: it oversells, though there is no wrong release. In the
// conformance suite it is survives-long-hold that shows it.
package lua
