// Package lock is the contract that every mutual-exclusion mechanism in this
// project meets, from one that excludes nobody to one that fences.
//
// A [Locker] acquires a key and gives a [Lease]. Who holds the key is an
// [Owner]: an explicit value that travels in the context and never the identity
// of a goroutine. The same owner acquiring again is re-entry, where the
// mechanism has it; without an owner in the context every acquisition is a
// stranger to every other.
//
// # What a lease says
//
// A lease is a claim with an end. [Lease.Lost] is closed, and [Lease.Context]
// ends with a cause, as soon as the mechanism knows that the claim is over or
// can no longer prove that it is not. A mechanism that cannot know (a bare
// SETNX, say) never signals: that is one of its weaknesses and its doc.go says
// so. Every weakness is declared to package locktest and proven there.
//
// # Errors
//
// An acquisition that ends because its wait limit passed, or because it tried
// once, gives [ErrNotAcquired] (as [*NotAcquiredError], with the holder where
// the mechanism knows it). One that ends because the caller's context ended
// gives the context's error. A server that cannot be reached gives
// [ErrUnavailable]: whether the key was taken is then unknown, and the mechanism
// has tried to give it back.
//
// A release tells three failures apart: [ErrNotHeld] (this lease was released
// before), [ErrExpired] (nobody holds the key) and [ErrLost] (somebody else
// does).
//
// # Beside acquire and release
//
// [Lease.Extend] lets a fixed lease run on. [Async] acquires in the background. Who
// holds a key, and taking it away from a dead holder, are [Inspector] and [Breaker],
// for mechanisms whose store can tell; [Observe] gives what metrics are made of. The
// examples show each of them, and docs/locks.md has all mechanisms side by side.
//
// # Faults
//
// Mechanisms and the order flow pass named [Point]s. A [*Faults] plan makes a
// passage pause, fail, panic, kill the process or abandon the lock; the nil
// plan, which is what production carries, costs one comparison.
package lock
