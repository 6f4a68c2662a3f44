// Package locktest is the conformance suite of package lock: what a mechanism
// promises, and what it is known to break.
//
// The suite is one table of [Behaviour]s, each with a small check. For every
// behaviour a mechanism makes one [Claim]:
//
//   - [Holds]: the check must pass;
//   - [Breaks]: the check must fail, every time, so that a weakness is a fact
//     that is proven and not a remark that ages;
//   - [NotApplicable]: the question makes no sense here, for the reason given.
//
// A behaviour without a claim fails the run: nothing is left unsaid, and a
// behaviour that is added later is answered by every mechanism. At the end the
// run logs the table.
//
// # The subject
//
// A [Subject] is a mechanism on a store that no other test touches. It starts
// "processes" (lockers that share the store and nothing else), it may pass their
// connections through a [Line] that the suite cuts, freezes or lets lose a reply,
// and it opens the [Store] for the suite to look in and to disturb. Package
// redisstore builds the subject of a Redis mechanism; a mechanism elsewhere fills
// in the struct.
//
// # Time
//
// Leases are short and real, since most stores have a clock of their own. What
// must happen within a limit is measured against a generous [tolerance]; where
// the point is to be quick, the best of several attempts counts, so that a busy
// machine does not decide. A check that a thing does not happen waits for a
// stated time; nothing sleeps in the hope that something has happened. Trials run
// in parallel, but for those that keep the machine busy: they come first, one by one.
//
// # Histories and scripts
//
// Some behaviours are not a story but a law. What several processes do at random is
// recorded, call and return, and porcupine looks for an order in which a mutex, a
// reentrant mutex or a fenced mutex would have done the same; where there is none,
// the operation that nothing explains is named, and go test -artifacts keeps a
// picture. A refusal is legal only if somebody held the lock at some moment of the
// attempt. Scripts that rapid draws are run step by step against the lock and a
// model of it, and the shortest one on which they differ is named with its seed.
//
// # Read-write locks, clusters, reports
//
// [RunShared] asks what a read-write lock does beyond being a lock. Package
// redisstore runs a Redis mechanism on a cluster as well. With LOCKTEST_REPORT set,
// runs add their verdicts to a file, and locktest/report prints the table of all
// mechanisms. LOCKTEST_LONG=1 lets endures-many-pairs take its full length.
package locktest
