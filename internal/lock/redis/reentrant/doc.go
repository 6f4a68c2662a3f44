// Package reentrant is the lock to use on a single Redis. It has re-entry, a lease that is renewed while its holder
// lives, waiting without polling, and a holder that is told when its lease ends. The scripts here decide who gets the
// lock; package session waits, renews and tells the holder.
//
// # Algorithm
//
// A free lock has nothing in Redis. A lock that is held once is a string. One command takes it or returns its holder,
// and a script compares and deletes it on release:
//
//	SET <prefix>lock:reentrant:{<key>} "lease:<id> <owner>" NX GET PX <ttl>
//
// With its owner's second lease it becomes a hash, until all leases are released:
//
//	owner       the holder
//	lease:<id>  when that lease ends, in ms of the server's clock
//
// The classic recipe (Redisson's) keeps a hash from owner to a counter. Here the hold count is the number of leases,
// each under the id of the request that took it. That makes acquire and release idempotent: to take or remove the same
// lease twice changes nothing, whatever the other leases do. And each lease has its own end, so the key expires when
// the last of them ends: re-entry never adds one lease to another, a release falls back to exactly what is left, and an
// inner lease that was abandoned counts no more once it has ended.
//
// One waiter of each waiting process is in a list. The release that frees the lock makes the next waiter of its own
// process the holder, or else the first of the list, in the same script.
//
// # States
//
//	free           → held once         acquire
//	held once      → held 2 … n times  re-entry
//	held           → held by a waiter  the last release, with a waiter
//	held           → free              the last release without a waiter, the end of the last
//	                                   lease, or a deletion of the key
//
// # Cost
//
//	uncontended              one round trip to acquire (SET), one to release (a script of
//	                         three commands)
//	contended, one process   one round trip per grant
//	contended, processes     two per grant: one to join the queue, one to release. The
//	                         first time, a refused attempt and SUBSCRIBE come before
//	held and renewed         one script every ten seconds per lock; a process sends all its
//	                         renewals in one batch
//
// # What is not guaranteed
//
//   - A single holder. A process that is paused longer than its lease (by its garbage
//     collector, its hypervisor, SIGSTOP) continues to write for the moment it takes to be
//     told, while the next holder already works. A replica that is promoted before it
//     received the lock grants it a second time. A machine that sleeps stops the clock that
//     leases are counted by. No lock can repair that from this side of the store: the write
//     has to carry a fencing token that the store checks (package fenced), or a condition.
//   - Strict order. Up to Config.MaxLocalHandovers waiters of one process go before those of
//     others, and only the first waiter of each process is in the queue in Redis.
//   - A prompt wake-up behind a process that was stopped while it waited: the lock may be
//     handed to it, and is free again after half of Config.QueueEntryTTL.
//
// # How to see it break
//
// A pause in the work alone does not break it. Under {"lock":"reentrant","scope":"voucher",
// "stock":"unguarded","lock_ttl_ms":100,"faults":[{"point":"critical-section", "pause_ms":400,"probability":0.05}]},
// where naive and lua oversell, the work ends with its lease and nothing is written late. Without lock_ttl_ms the lease
// is renewed and the sale is right. A pause of the whole process breaks it: SIGSTOP for longer than the lease, between
// the check and the write. The laboratory's paused-holder does that, with this lock and with fenced.
package reentrant
