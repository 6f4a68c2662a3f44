// Package threadid is SET NX PX with a number as its value, which a release
// compares before it deletes. The number is unique in this process, and only there.
//
// # Algorithm
//
//	SET key number NX PX lease     OK: ours; nil: taken
//
//	GET key                        nil: expired; another number: lost
//	DEL key                        when it was ours
//
// The recipe stores the id of the thread. A goroutine has none, so that each
// acquisition takes the next number of its process, from 1 on. Who waits asks
// again every few milliseconds.
//
// # States
//
// Free, or held until the lease ends. A release passes through a third: compared
// and not yet deleted.
//
// # What is not guaranteed
//
//   - That a release is the holder's. Every process counts from 1: a holder that
//     is later than its lease finds its own number in the lock that another
//     process has by now, and deletes it. The comparison helps within a process,
//     where a mutex would have done. Package uuid puts something before the number
//     that no other process has.
//   - That an acquisition whose reply was lost hurts nobody: what the server may
//     have granted is given back, after the same comparison.
//   - That a process knows its own lock: since a number is not one process's, a
//     SET that was repeated after a lost reply cannot tell its own first try from
//     somebody else's, and is refused. The key stays for its lease.
//   - That what is deleted is what was compared, that nobody else gets in while
//     the holder works, and re-entry: as in package uuid. The lease is fixed
//     (opts.TTL, else [lock.DefaultTTL]).
//
// # How to see it break
//
// Sell a voucher, through two processes and to four buyers at a time, under
// {"lock":"thread-id","scope":"voucher","stock":"unguarded","lock_ttl_ms":200,
// "faults":[{"point":"critical-section","pause_ms":100},{"point":"before-release",
// "pause_ms":150}]}: it oversells, and under uuid it does not, since all work ends
// within its lease and only releases are late. In the conformance suite it is
// releases-only-own that shows it.
package threadid
