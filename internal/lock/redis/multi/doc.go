// Package multi is a lock that every one of N independent Redis nodes grants.
//
// # Algorithm
//
//	SET key value NX GET PX lease     to all nodes at once: all of them, or none
//	quorum/extend.lua                 to all, at a third of the lease: all of them
//	quorum/release.lua                to all
//
// The value is new with every try, followed by the owner. The lease counts from
// before the first command, less the drift (1 % and 2 ms) and a margin of at most
// 200 ms. Where one node refuses, hangs or fails, what the others granted is given
// back before Acquire returns; what a silent node may have got is taken away in the
// background. Contenders that come at the same moment may each get a part: whoever
// has the first node then insists and the others give way, so list the nodes in one
// order everywhere.
//
// # States
//
// Free; or held, while all nodes have one value; or in part somebody's, which is
// nobody's: for the moment of a contention, or after a node lost the key. In that
// state nobody gets in until the parts have run out. A holder of whom one node knows
// nothing any more is told at the next renewal ([lock.ErrExpired], [lock.ErrLost]);
// one that cannot renew on all nodes is told before its lease ends
// ([lock.ErrUnavailable]). A renewal never takes a node back that lost the key.
//
// # What is not guaranteed
//
//   - That anybody gets in: with one node down nobody does (ErrUnavailable names it),
//     and with one whose clock stands still a dead holder's key stays there for ever.
//     N nodes fail N times as often as one.
//   - That there is one holder. A process that is paused longer than its lease goes
//     on until it is told; only a fencing token that the store checks helps there, and
//     nodes that have nothing in common cannot give one. A clock that jumps, or a
//     node that forgets, gives two holders only where it happens on all nodes within
//     one lease.
//   - Order between processes, wake-up, re-entry. Waiters of one process stand in
//     line, and its first polls.
//
// # Cost
//
// One round trip each to acquire, renew and release, of the slowest node, and N
// commands. A try in vain costs N commands, and N more where some node granted it.
// A node that hangs costs each of them NodeTimeout.
//
// # How to see it break
//
// Stop one node: every sale under {"lock":"multi"} fails with ErrUnavailable until it
// is back. Of the tests of this package TestOneNodeDownAndNobodyGetsIt shows that,
// TestStuckClock the clock that stands still, and TestPromotedReplica what a promoted
// replica does to one node and not to three. TestForgetfulNode shows what holds.
package multi
