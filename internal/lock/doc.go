// Package lock is the contract of every mutual-exclusion mechanism in this project. The mechanisms range from one that
// excludes nobody to one whose tokens make late writes harmless.
//
// A [Locker] acquires a key and returns a [Lease]. To copy a lock into your own project, take this package, the folder
// of the mechanism, and what that folder imports. Each folder's doc.go says what its lock does not guarantee;
// docs/locks.md compares all mechanisms.
//
// # I want one holder at a time
//
//	within one process                   package local
//	across processes, on one Redis       package redis/reentrant, or redis/lua for the
//	                                     shortest code that is safe: no renewal, no
//	                                     wake-up, no notice of a loss
//	across processes, in arrival order   package redis/fair, or zookeeper/queue
//	across processes, without Redis      packages mysql/getlock, mysql/row and
//	                                     mysql/forupdate, zookeeper/queue
//
// No lock with a lease can promise one holder while a process can be paused for longer than that lease. Guard the write
// as well: see the token below.
//
// # I want to be told when I lose the lock
//
// Work under [Lease.Context]: it ends, with the reason as its cause, before the store can let anybody else in.
// [Lease.Lost] is the same as a channel. The holder is told by redis/reentrant, redis/fair, redis/rw, redis/fenced,
// redis/red, redis/multi, mysql/row with expiry, mysql/getlock, mysql/forupdate, zookeeper/node and zookeeper/queue.
// redis/lua and the simpler mechanisms cannot know before the release, and say so.
//
// # I want a write to be refused after I lost the lock
//
// Write [Lease.Token] with the data and let the store compare: a token grows with every new holder. Package
// redis/fenced has one, with an example of the SQL; so have zookeeper/node and zookeeper/queue (the zxid of the node).
//
// # I want many readers and one writer
//
// Package redis/rw: [Locker]s for readers and for writers on the same key.
//
// # I want the lock to survive the loss of a Redis server
//
//	a majority of independent Redis nodes    package redis/red
//	a ZooKeeper ensemble                     package zookeeper/queue
//	Redis with replicas                      no lock here: a replica that is promoted
//	                                         before it received the key grants it again.
//	                                         With redis/fenced the second holder's writes
//	                                         win and the first one's are refused
//
// # I want to wait, for a limited time
//
// [Options.Wait] limits the wait, the context ends it early. The error tells which: see below. The example "Background"
// waits in a goroutine.
//
// # I want to lock again what I hold
//
// The holder of a key is an [Owner]: an explicit value in the context ([WithOwner]), not the identity of a goroutine.
// Acquiring again as the same owner is re-entry with redis/reentrant, redis/fair, redis/rw and redis/fenced; with the
// others the owner waits for itself. Without an owner in the context every acquisition is by a new one.
//
// # I want to work longer than my lease
//
// Leave [Options.TTL] zero where the mechanism renews its leases (a watchdog does so until the release). A fixed lease
// is prolonged with [Lease.Extend].
//
// # I want to see or remove a holder
//
// [Inspector] and [ForceReleaser] are implemented by the mechanisms whose store can tell. [Observe] reports the events
// that metrics are made of.
//
// # Errors
//
//	acquire   ErrNotAcquired     the wait limit passed, or the only attempt failed;
//	                             a *NotAcquiredError names the holder where it is known
//	          context error      the caller's context ended
//	          ErrUnavailable     the server could not be asked. Whether it granted the key
//	                             is unknown; the mechanism releases what it may have granted
//	          ErrInvalid         the key or the options are unacceptable
//	          ErrWrongKind       the key is in use by something else
//	release   ErrNotHeld         this lease was released before
//	          ErrExpired         nobody holds the key any more
//	          ErrLost            somebody else holds it
//	          ErrUnavailable     the outcome is unknown; release again
//
// # Only for the laboratory: fault injection
//
// fault.go is not part of the contract. Mechanisms and the order flow pass named points at which an experiment can
// pause, fail, panic, kill the process or abandon the lock. The plan travels in the context ([WithFaults]), so neither
// [Options] nor [Lease] knows of it. Production code carries no plan. To copy the package without it, delete fault.go
// and what no longer compiles.
package lock
