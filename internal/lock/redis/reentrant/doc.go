// Package reentrant is the lock to use on a single Redis: re-entry, a lease that is
// renewed while its holder lives, waiting without polling, and a holder who is told
// when it is over. Package session does the waiting, the renewing and the telling;
// here are the scripts that decide.
//
// # Algorithm
//
// Nothing is in Redis for a lock that is free. One that is held once is a string,
// taken and learned about with one plain command and released by a script that
// compares and deletes:
//
//	SET <prefix>lock:reentrant:{<key>} "lease:<id> <owner>" NX GET PX <lease>
//
// From its owner's second lease on it is a hash, until all of them are given back:
//
//	owner       who holds it
//	lease:<id>  when that lease ends, in ms of the server's clock
//
// The classic recipe (Redisson's) keeps a hash from owner to a counter. Here the hold
// count is the number of leases, each under the id of the request that took it. That
// makes acquire and release idempotent by themselves: to take or to remove the same
// lease twice changes nothing, in whatever order the others come and go. And since
// each lease has its own end, the key's expiry is always the end that is farthest
// away: re-entry never adds one lease to another, a release falls back to exactly
// what is left, and an inner lease that was abandoned stops to count when it ends.
//
// Of each process that waits, one waiter is in a list. The release that frees the lock
// makes the next waiter of its own process the holder, or the first of the list, in the
// same script.
//
// # States
//
// free → held once → free; held once → held 2 … n times → free; held → passed on to a
// waiter → held. From held to free lead the release of the last lease, the end of the
// last lease, and whoever deletes the key.
//
// # Cost
//
// Uncontended, one round trip to acquire and one to release: SET, and a script of three
// commands. Contended within a process, one round trip a grant. Between processes that
// keep coming back, two: one to take a place, one to release; the first time, a refused
// attempt and SUBSCRIBE come before that. Held and renewed, one script in ten seconds
// for each lock, all those of a process in one batch.
//
// # What is not guaranteed
//
//   - That there is one holder. A process that is paused (by its garbage collector,
//     its hypervisor, SIGSTOP) longer than its lease goes on writing for the moment it
//     takes to be told, while the next holder already works. A replica that is promoted
//     before it had the lock gives it out a second time. A machine that sleeps stops
//     the clock that leases are counted by. None of it can be mended on this side of
//     the store: what is written has to be guarded by a fencing token that the store
//     checks (package fenced), or by a conditional write.
//   - Strict order. Within a process up to Config.Passes waiters go before those of
//     others, and of each process only the first of its waiters has a place.
//   - Prompt wake-up behind a process that stopped while it waited: the lock may be
//     passed on to it, and is then free after half of Config.PlaceTimeout.
//
// # How to see it break
//
// Not by a pause in the work alone. Under {"lock":"reentrant","scope":"voucher",
// "stock":"unguarded","lock_ttl_ms":100,"faults":[{"point":"critical-section",
// "pause_ms":400,"probability":0.05}]}, which oversells with naive and lua in its
// place, the work ends with its lease and nothing is written late; without
// lock_ttl_ms the lease is renewed and the sale is right. What breaks it is a pause of
// the whole process: SIGSTOP for longer than the lease between the check and the
// write. internal/lock/failures does that, with this lock and with fenced.
package reentrant
