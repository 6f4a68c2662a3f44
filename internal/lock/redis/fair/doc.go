// Package fair is a lock that waiters get in order of arrival, across processes.
//
// # Algorithm
//
// The lock is a hash of its owner and its leases, as in package reentrant. Every waiter has an entry in a sorted set,
// by a ticket that Redis takes from its clock when the waiter arrives; a second sorted set says when each entry ends.
// The first in the queue gets the lock, and nobody else: not even a newcomer that finds it free.
//
//	<prefix>lock:fair:{<key>}         owner, lease:<id> …
//	<prefix>lock:fair:{<key>}:queue   entry → ticket
//	<prefix>lock:fair:{<key>}:places  entry → when it ends
//
// A release makes the first waiter the holder at once if it is in the releasing process. Otherwise it notifies the
// waiter, which then acquires the lock. A waiter refreshes its entry three times in the life of one
// (Config.QueueEntryTTL). A waiter that gives up leaves at once, wherever it stands; one that died is skipped when its
// entry has ended. All times are the Redis server's; the processes' clocks do not matter.
//
// If no entry at all was refreshed for half of its life, it is the server that stood still (CLIENT PAUSE, a slow disk,
// SIGSTOP), and nobody loses an entry for that. A waiter that was removed by mistake comes back with its ticket, to its
// old position.
//
// # States
//
//	free               → held                 acquire, with an empty queue
//	held               → first waiter's turn  the last release or the end of the last lease
//	first waiter's turn → held                that waiter acquires
//	first waiter's turn → next waiter's turn  its entry ends
//	held               → free                 as reentrant, with an empty queue
//
// # What is not guaranteed
//
//   - Throughput. Every grant goes to one particular waiter. If it is slow, everybody waits
//     for it; if it is dead, until its entry ends.
//   - Cheap waiting. Every waiter, not every process, has an entry in Redis: the price of an
//     order over all processes.
//   - A single holder: see package reentrant.
//   - The order of waiters that arrive while Redis fails over, or after it restarted empty:
//     lost tickets are issued again, or brought back by their waiters.
//
// # How to see it
//
// make bench-locks ARGS="-only one-key" prints the grants per goroutine and the longest wait, beside locks without an
// order. What a dead waiter and a promoted replica cause:
//
//	go test -run 'TestConformance$/fair/evicts-dead-waiters' -v ./internal/lock/redis
//	go test -run TestServerForgets/fair -v ./internal/lock/lockers
package fair
