// Package threadid is SET NX PX with a number as the value, which a release compares before it deletes. The number is
// unique within one process only.
//
// # Algorithm
//
//	SET key number NX PX ttl       OK: granted; nil: taken
//
//	GET key                        nil: expired; another number: lost
//	DEL key                        if the number was its own
//
// The classic recipe stores the id of the thread. A goroutine has none, so each acquisition takes the next number of
// its process, starting at 1. Waiters poll every few milliseconds.
//
// # States
//
// Free, or held until the lease ends. A release passes through a third state: compared and not yet deleted.
//
// # What is not guaranteed
//
//   - That a release deletes the holder's own lock. Every process counts from 1: a holder
//     that releases after its lease ended may find its own number in the lock that another
//     process holds by then, and deletes it. The comparison helps within one process,
//     where a mutex would do. Package uuid adds a prefix that no other process has.
//   - That an acquisition whose reply was lost harms nobody. What the server may have
//     granted is released after the same comparison, and so may be another process's. It is
//     released once: a SET that Redis executes after that takes the key for its lease.
//   - That a process recognises its own lock. Two processes may use the same number, so a
//     SET that is repeated after a lost reply cannot tell its own first attempt from
//     another holder's, and is refused. The key stays for its lease.
//   - That the deleted lock is the one that was compared, that nobody else gets the lock
//     while the holder works, and re-entry: as in package uuid. The lease is fixed
//     (opts.TTL, else [lock.DefaultTTL]).
//
// # How to see it break
//
// Sell a voucher, through two processes and to four buyers at a time, under
// {"lock":"thread-id","scope":"voucher","stock":"unguarded","lock_ttl_ms":200,
// "faults":[{"point":"critical-section","pause_ms":100},{"point":"before-release", "pause_ms":150}]}: it oversells.
// Under uuid it does not, because all work ends within its lease and only releases are late. In the conformance suite,
// releases-only-own shows it.
package threadid
