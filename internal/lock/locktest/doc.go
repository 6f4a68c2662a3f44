// Package locktest is the conformance suite of package lock. It proves what a mechanism promises and what it is known
// to break.
//
// The suite is one table of [Behaviour]s, each with a small check. A mechanism makes one [Claim] about every behaviour:
//
//	[Holds]          the check must pass
//	[Breaks]         the check must fail every time: a weakness is proven, not remarked
//	[NotApplicable]  the behaviour makes no sense here, for the reason given
//
// A behaviour without a claim fails the run. So nothing is left open, and every mechanism has to answer a behaviour
// that is added later. A mechanism declares its [Promises] as a difference from the table of its family: [AllHold],
// [NoTokens], [Polling], [FixedLease] or [BlindDelete]. At the end the run logs its table.
//
// # The subject
//
// A [Subject] is a mechanism on a store that no other test touches. It starts "processes": lockers that share the store
// and nothing else. The connections of a process may go through a [Network], which the suite cuts, freezes or makes
// lose a reply. Through the [Store] the suite reads and changes what the mechanism keeps. Packages redisstore,
// mysqlstore and zkstore build subjects; another mechanism fills in the struct.
//
// # Time
//
// [Virtual] runs each trial in a bubble of testing/synctest, with the store in this process: a lease of an hour costs
// nothing, and every limit is kept to the millisecond. [Run] proves on a real server what does not depend on how fast
// the machine is: each behaviour says whether it is timed. [Soak] proves all of them there, with real leases and a
// tolerance; it tries again where the machine stalled. What a trial may expect of time stands in one place, the type
// pace.
//
// # Histories and scripts
//
// Some behaviours are checked on random operations. Two methods exist:
//
//   - Histories: several processes run at random, and every call and return is
//     recorded. Porcupine then searches for an order in which a mutex, a reentrant
//     mutex or a fenced mutex would have given the same results. If there is none, the
//     suite names the operation that cannot be explained, and go test -artifacts keeps
//     a picture. A refusal is legal only if somebody held the lock at some moment of
//     the attempt.
//   - Scripts: the suite runs random scripts step by step against the lock and against a
//     model of it. It names the shortest script that it finds on which the two differ.
//
// # Read-write locks, clusters, reports
//
// [Promises.AndShared] adds what a read-write lock does beyond being a lock. Package redisstore also runs a Redis
// mechanism on a cluster. With LOCKTEST_REPORT set, runs append their verdicts to a file, from which locktest/report
// prints the table of all mechanisms. LOCKTEST_LONG=1 makes endures-many-pairs take its full length.
package locktest
