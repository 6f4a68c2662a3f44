// Package waited is reentrant, whose holder gets the lock once replicas have acknowledged it (WAIT). It narrows the
// window in which a failover forgets a lock. It does not close it.
//
// # Algorithm
//
// As [seckill/internal/lock/redis/reentrant], under keys of its own. Each grant, also one that a release hands over to
// a waiter, is followed by one pipeline on one connection:
//
//	EVALSHA renew.lua …   the lease counts from here
//	WAIT replicas ms      how many replicas have this write, and so everything before it
//
// WAIT counts replicas that have the writes of its own connection. The grant may have come over another connection, or
// from the release of another process. The renewal makes a write of this one, which is later than the grant in the one
// stream that replicas receive.
//
// If fewer than Config.Replicas (1) replicas acknowledge within Config.CommandTimeout (1 s), the lock is released, and
// the error is [lock.ErrUnavailable] with the number of those that did. It is not ErrNotAcquired: nobody else has the
// lock, and to wait for it would not help. The wait for replicas comes on top of the wait for the lock.
//
// # States
//
// As reentrant, with one more: granted and not acknowledged. Others find the lock taken meanwhile.
//
// # Cost
//
// One round trip and a replication more than reentrant for each acquisition, none for a release.
//
// # What is not guaranteed
//
//   - A single holder after a failover. WAIT is no consensus. It says how many replicas have the lock, and not that one of
//     them will be promoted: sentinels and operators choose by other criteria, and a replica without the lock grants it
//     again, as Redisson's issue 5256 describes. Only a wait for all replicas helps, and then the
//     failure of one stops every lock; or a token that the database checks (package fenced), or several independent
//     servers (package red).
//   - The lock's survival on a replica: it has the write in memory. WAITAOF, which waits for its disk, is not used.
//   - The length of the lease after a failover. Renewals and releases are not waited for: the new primary may end a lease
//     earlier than its holder was told, or have a lock that was released, until its lease ends.
//   - A lock on a server without replicas, such as the one inside this process: there is none to be had.
//   - Everything else that reentrant does not guarantee.
//
// # How to see it break
//
// The laboratory's experiment waited-other-replica shows it. One of two replicas is cut off. The other one acknowledges
// the lock. Then the replica that was cut off is promoted, and there are two holders. TestPromotion does the same.
package waited
