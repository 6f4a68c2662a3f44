// Package reentrant is the strongest lock that a single Redis can give: re-entry,
// a lease that is renewed while its holder lives, waiting without polling, and a
// holder who is told when it is over.
//
// # What is in Redis
//
// One hash for each lock that is held, and nothing for one that is free:
//
//	<prefix>lock:reentrant:{<key>}   owner       who holds it
//	                                 lease:<id>  when that lease ends, ms of the server's clock
//	                                 awaited     somebody waits for a message
//
// The classic recipe keeps a counter. Here the hold count is the number of leases,
// each under the id of the request that took it. That makes acquire and release
// idempotent by themselves: to take or to remove the same field twice changes
// nothing, in whatever order other leases of the same owner come and go. And since
// each lease has its own end, the key's expiry is always the end that is farthest
// away: re-entry never adds one lease to another, a release falls back to exactly
// what is left, and an inner lease that was abandoned stops to count when it ends.
//
// An owner is free → holds (1 … n leases) → free. From holds to free lead the
// release of the last lease, the end of the last lease, and whoever deletes the key.
//
// # Outcomes that are not known
//
// go-redis by default sends a command up to four times and does not say so. Here
// every command goes out once ([redis.Cmder]'s NoRetry, so that the client's
// MaxRetries need not be touched), and it is the locker that repeats one whose
// reply is missing: it then knows that the first may have been carried out.
//
//   - An acquire that is repeated finds its own lease and counts it once.
//   - An acquire that fails, or that its caller gives up, while the reply to one of
//     its attempts is missing is followed by releases of its id on time of their own;
//     so is the release of a lease that took more than one attempt. "Not there" is
//     not believed then: the release is repeated until the server has answered for
//     [lock.ReleaseTimeout]. A command that the network delays longer than that, or
//     a server that hangs for more than a minute, leaves a lock for the length of
//     its lease.
//   - A release that is repeated and finds nothing has succeeded, as long as the
//     lease could not have run out by itself. No trace of it is kept in Redis.
//
// # Waiting
//
// Waiters of one process stand in line, in order of arrival, and only the head
// talks to Redis: it subscribes, tries, and sleeps until the message or the end of
// the holder's lease, whichever is first. So a message that is missed costs no
// more than the lease. All waiters of a process share one pub/sub connection,
// which subscribes to a channel for the first waiter of a key and unsubscribes
// after the last. A release sends a message only where the refusal of a waiter left
// the mark "awaited"; an uncontended lock never publishes.
//
// The message is a plain PUBLISH. In a cluster it reaches every node, so one
// connection hears all keys. Sharded pub/sub (Redis 7) would spare the other nodes
// the message, but it needs a connection to each primary and go-redis binds a
// subscription to one node; with messages for awaited locks only, the simpler way
// won. Within a process the order is that of arrival; between processes it is open.
//
// # Being told
//
// A lease counts from before the attempt that was granted or renewed, less a
// margin of 2 %. At that moment, and so before Redis lets anybody else in, its
// context ends: with [lock.ErrExpired] if it was a fixed lease or this process did
// not run, with [lock.ErrUnavailable] and the last error if it could not be renewed.
// A key that is gone or somebody else's is found at the next renewal
// ([lock.ErrExpired], [lock.ErrLost]), and then all leases of that owner are over.
// Renewals are tied to their lease: a release ends them first, and one that is
// already on the way finds its field gone and brings nothing back.
//
// # What it does not guarantee
//
// That there is one holder. A process that is paused (by its garbage collector, its
// hypervisor, SIGSTOP) longer than its lease goes on writing for the moment it
// takes to be told, while the next holder already works. A replica that is promoted
// before it had the lock gives it out a second time. A machine that sleeps stops
// the clock that leases are counted by. None of it can be mended on this side of
// the store: what is written has to be guarded by a fencing token that the store
// checks, or by a conditional write.
//
// # How to see it break
//
// Not by a pause in the work alone. Under {"lock":"reentrant","scope":"voucher",
// "stock":"unguarded","lock_ttl_ms":100,"faults":[{"point":"critical-section",
// "pause_ms":400,"probability":0.05}]}, which oversells with naive and lua in its
// place, the holder is told before its lease can have ended, and the transaction,
// which runs under the lease's context, is rolled back. Add "placement":"inside-tx":
// now the work does not run under that context, and the lock is given back before
// the commit. On a database where two transactions can be open on one row (MySQL,
// MariaDB, but not the embedded SQLite) it oversells. In the conformance suite
// tokens-grow shows what a store would need to refuse a holder that is late.
//
// # Sources
//
// The hash, the counter and the watchdog at a third of the lease are Redisson's
// RLock; telling the holder before the lease can have ended is what Kubernetes'
// leader election does with its renew deadline; the clean-up on a context of its
// own is etcd's concurrency package.
package reentrant
