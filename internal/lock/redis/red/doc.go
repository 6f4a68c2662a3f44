// Package red is Redlock: a lock that a majority of N independent Redis nodes grants within its validity.
//
// # Algorithm
//
//	SET key value NX GET PX ttl       to all nodes at once; a majority acquires
//	validity = TTL - elapsed - drift, and at least 1 ms
//	quorum/extend.lua                 to all, every third of the lease: a majority
//	quorum/release.lua                to all
//
// This is the algorithm of the Redis documentation ("Distributed locks with Redis"), with all nodes asked at once. The
// value is new with every attempt; the owner follows it. elapsed counts from before the first command. The drift is 1 %
// of the lease and 2 ms. Without a majority, everything that was or may have been granted is released, and waiters ask
// again after a random delay. Contenders that ask at the same moment may split the votes: the one with the first node
// that answered keeps its votes and the others release theirs, so list the nodes in the same order everywhere.
//
// Without a majority the error is [lock.ErrNotAcquired] where a majority answered, or so many said "taken" that the
// silent nodes do not matter, and [lock.ErrUnavailable] where the silent nodes decide.
//
// # States
//
//	free    no majority has one value
//	held    a majority has one value, whatever the other nodes have
//
// A holder with fewer nodes is told at the next renewal ([lock.ErrExpired], [lock.ErrLost]). A holder that cannot renew
// on a majority in time is told before the validity ends ([lock.ErrUnavailable]).
//
// A renewal extends and never takes: a node that did not grant the key, or lost it, stays without it until the next
// acquisition. To take it would restore the majority, but a late renewal could then bring back a lock that was just
// released.
//
// A release succeeds where a majority had the key, even if a node is down. If that node comes back with the key on its
// disk, it keeps it until the lease ends.
//
// # What is not guaranteed
//
// A single holder. Each of these cases is a test of package quorum or an experiment of the laboratory:
//
//   - A node that voted restarts empty, without persistence. It votes again, and there are two
//     holders. The remedy is a delayed restart: a node that may have forgotten stays away for
//     as long as the longest lease (WatchdogTimeout, or the longest TTL in use). Nothing here
//     enforces that. appendfsync always is the other remedy.
//   - The clocks of a majority jump past the lease: the same. One clock alone does nothing,
//     and one that stands still only takes its node out.
//   - A node that is a primary with a replica forgets when it fails over. One of three does no
//     harm; still, do not replicate the nodes.
//   - The holder is paused (garbage collector, hypervisor, SIGSTOP), or its write is delayed,
//     beyond the validity. This is Martin Kleppmann's critique ("How to do distributed
//     locking", 2016). The lock cannot help there; only a fencing token that the store checks
//     can, and Redlock has none. A machine that sleeps stops the monotonic clock that counts
//     the validity.
//
// There is also no order between processes, no wake-up and no re-entry. The waiters of one process queue, and the first
// of them polls.
//
// # Cost
//
// Acquire, renew and release take one round trip each, to the slowest node, and N commands. A failed attempt costs N
// commands, and N more where some node granted it. A node that hangs costs each operation NodeTimeout, and nothing else
// while it is the only one of three.
//
// # How to see it break
//
// Two holders, and neither is told; TestDelayedRestart shows the remedy:
//
//	go test -run 'ForgetfulNode|JumpingClocks' ./internal/lock/redis/quorum
package red
