// Package red is Redlock: a lock that a majority of N independent Redis nodes grants
// within its validity.
//
// # Algorithm
//
//	SET key value NX GET PX lease     to all nodes at once; a majority wins
//	validity = lease - elapsed - drift, and 1 ms at least
//	quorum/extend.lua                 to all, at a third of the lease: a majority
//	quorum/release.lua                to all
//
// It is the algorithm of the Redis documentation ("Distributed locks with Redis"),
// with all nodes asked at once. The value is new with every try, followed by the
// owner; elapsed counts from before the first command; the drift is 1 % of the lease
// and 2 ms. Without a majority, all that was or may have been granted is given back,
// and who waits asks again after a random delay. Contenders that come at the same
// moment may split the votes: whoever has the first node that answered then insists
// and the others give way, so list the nodes in one order everywhere.
//
// No majority is [lock.ErrNotAcquired] where a majority answered, or so many said
// "taken" that the silent ones do not matter, and [lock.ErrUnavailable] where it is
// the silence that decides.
//
// # States
//
// Free, or held while a majority has one value, whatever the others have. A holder
// with fewer is told at the next renewal ([lock.ErrExpired], [lock.ErrLost]); one that
// cannot renew on a majority in time is told before the validity ends
// ([lock.ErrUnavailable]). A renewal extends and never takes: a node that did not
// grant the key, or lost it, stays without it until the next acquisition. Taking it
// would heal the majority, but a late one could bring back what was just released.
// A release succeeds where a majority had the key, though a node may be down; one
// that comes back with the key on its disk has it until the lease ends.
//
// # What is not guaranteed
//
// That there is one holder. Each of these is a test of this package, or of its
// holder's own making:
//
//   - A node that voted restarts empty, without persistence: it votes again, and there
//     are two holders. The remedy is a delayed restart: a node that may have forgotten
//     stays away for as long as the longest lease (WatchdogTimeout, or the longest TTL
//     in use). Nothing here enforces that. appendfsync always is the other remedy.
//   - The clocks of a majority jump past the lease: the same. One clock does nothing,
//     and one that stands still only takes its node out.
//   - A node that is a primary with a replica forgets when it fails over. One of three
//     does no harm; do not replicate the nodes all the same.
//   - The holder is paused (collector, hypervisor, SIGSTOP) or its write is delayed
//     beyond the validity. This is Martin Kleppmann's critique ("How to do distributed
//     locking", 2016): the lock cannot help there, only a fencing token that the store
//     checks, and Redlock has none to give. A machine that sleeps stops the monotonic
//     clock that the validity counts by.
//
// Nor are order between processes, wake-up and re-entry. Waiters of one process stand
// in line, and its first polls.
//
// # Cost
//
// One round trip each to acquire, renew and release, of the slowest node, and N
// commands. A try in vain costs N commands, and N more where some node granted it.
// A node that hangs costs each of them NodeTimeout, and nothing else while it is the
// only one of three.
//
// # How to see it break
//
// go test -run 'ForgetfulNode|JumpingClocks' ./internal/lock/redis/red: two holders,
// neither of whom is told. DelayedRestart shows the remedy.
package red
