// Package rw is a lock that readers share and a writer has alone.
//
// # Algorithm
//
// One hash says who reads and who writes, each lease with its own end (state.lua has
// the fields). Readers come in while nobody writes and no writer waits; a writer comes
// in when nobody is there. To keep either side from starving the other, they take
// turns, as in a phase-fair lock (Brandenburg and Anderson, "Spin-based reader-writer
// synchronization for multiprocessor real-time systems", 2010):
//
//   - A writer that waits keeps new readers out. Those that read already go on.
//   - A writer's release lets all readers in that wait at that moment, in every process
//     and before the next writer.
//
// [Locker.Writer] and [Locker.Reader] are lockers of their own; the [Locker] itself is
// the writer's, which is what the policy {"lock":"rw"} uses. Who is the same owner
// (lock.WithOwner) may read while it writes, and go on reading after it gave the
// writing back. The other way round is refused at once, with lock.ErrInvalid and
// whatever the wait limit: two readers that both want to write would wait for each
// other for ever.
//
// # States
//
// free → read by 1 … n → free; free → written → free or, where readers wait, the
// readers' turn → read; written by an owner that reads too → read. The last lease's
// end, a deletion and ForceRelease lead to free as well.
//
// # What is not guaranteed
//
//   - That there is no reader beside the writer, where a process was paused past its
//     lease or Redis was failed over: see package reentrant. There are no tokens.
//   - Order among readers, and strict order among writers.
//   - That a reader who is told within a turn of a second gets in: one that is slower
//     than that, behind a writer, asks again.
//   - Cheap reading. Every reader is a write to Redis; a lock saves what it guards, not
//     its own cost.
//
// # How to see it
//
// locktest.RunShared proves the promises: readers share, a dead reader blocks one
// lease and no more, an upgrade is refused, writers get in among endless readers.
//
// # How to see it break
//
// A primary dies before its replica had the lock, and there are two writers:
//
//	go test -run TestFaults/replica-promoted-unreplicated -v ./internal/lock/failures
package rw
