// Package rw is a lock that readers share and a writer holds alone.
//
// # Algorithm
//
// One hash says who reads and who writes, each lease with its own end (state.lua lists the fields). Readers get in
// while nobody writes and no writer waits; a writer gets in when nobody holds the lock. To keep either side from
// starving the other they take turns, as in a phase-fair lock (Brandenburg and Anderson, "Spin-based reader-writer
// synchronization for multiprocessor real-time systems", 2010):
//
//   - A waiting writer keeps new readers out. Those that read already continue.
//   - A writer's release lets in all readers that wait at that moment, in every process and
//     before the next writer.
//
// [Locker.Writer] and [Locker.Reader] return one locker each. The [Locker] itself is the writers', which the policy
// {"lock":"rw"} uses. An owner (lock.WithOwner) that writes may also read, and continue to read after it has released
// the lock for writing. An owner that reads and wants to write is refused at once with lock.ErrInvalid, whatever the
// wait limit: two such readers would wait for each other for ever.
//
// # States
//
//	free              → read by 1 … n   a reader acquires
//	free              → written         a writer acquires
//	read by 1 … n     → free            the last reader releases
//	written           → readers' turn   the writer releases and readers wait
//	readers' turn     → read by 1 … n   they acquire, within a second
//	written           → read            the writer releases and goes on reading
//	read or written   → free            the end of the last lease, a deletion, ForceRelease
//
// # What is not guaranteed
//
//   - That no reader works beside the writer after a process was paused past its lease or
//     Redis failed over: see package reentrant. There are no tokens.
//   - Order among readers, and strict order among writers.
//   - That a notified reader gets in: one that takes longer than a second, with a writer
//     waiting, has to ask again.
//   - Cheap reading. Every reader is a write to Redis; the lock saves the work that it
//     guards, not its own cost.
//
// # How to see it
//
// The suite proves the promises: readers share, a dead reader blocks for one lease and no longer, an upgrade is
// refused, writers get in among endless readers.
//
// # How to see it break
//
// A primary dies before its replica received the lock, and there are two writers:
//
//	go test -run TestServerForgets/rw -v ./internal/lock/lockers
package rw
