// Package multi is a lock that every one of N independent Redis nodes has to grant.
//
// # Algorithm
//
//	SET key value NX GET PX ttl       to all nodes at once: all of them, or none
//	quorum/extend.lua                 to all, every third of the lease: all of them
//	quorum/release.lua                to all
//
// The value is new with every attempt; the owner follows it. The lease counts from before the first command, less the
// drift (1 % and 2 ms) and a margin of at most 200 ms. Where one node refuses, hangs or fails, Acquire releases what
// the others granted before it returns; what a silent node may have granted is released in the background. Contenders
// that ask at the same moment may each get some of the nodes: the one with the first node keeps its votes and the
// others release theirs, so list the nodes in the same order everywhere.
//
// # States
//
//	free           no node has the key
//	held           all nodes have one value
//	partly taken   some nodes have a value: for a moment between contenders, or after a node
//	               lost the key. Nobody gets the lock until those leases end
//
// A holder whose key is gone on one node is told at the next renewal (lock.ErrExpired, lock.ErrLost). A holder that
// cannot renew on all nodes is told before its lease ends (lock.ErrUnavailable). A renewal never takes the key on a
// node that lost it.
//
// # What is not guaranteed
//
//   - That anybody gets the lock. With one node down nobody does (the ErrUnavailable names
//     it). With one whose clock stands still, a dead holder's key stays there for ever. N
//     nodes fail N times as often as one.
//   - A single holder. A process that is paused longer than its lease continues until it is
//     told; only a fencing token that the store checks helps, and independent nodes cannot
//     issue one. A clock that jumps, or a node that forgets, gives two holders only where it
//     happens on all nodes within one lease.
//   - Order between processes, wake-up, re-entry. The waiters of one process queue, and the
//     first of them polls.
//
// # Cost
//
// Acquire, renew and release take one round trip each, to the slowest node, and N commands. A failed attempt costs N
// commands, and N more where some node granted it. A node that hangs costs each operation NodeTimeout.
//
// # How to see it break
//
// Stop one node: every sale under {"lock":"multi"} fails with ErrUnavailable until it is back. In the tests of package
// quorum, TestTakenAndDeadNodes shows that, TestStuckClock the clock that stands still, and TestPromotedReplica what a
// promoted replica does to one node and not to three. TestForgetfulNode shows what holds.
package multi
