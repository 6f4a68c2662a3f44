// Package fair is a lock that is given out in order of arrival, across processes.
//
// # Algorithm
//
// The lock is a hash of its owner and its leases, as in package reentrant. Every
// waiter has a place of its own in a sorted set, by a ticket that Redis draws from its
// clock when the waiter arrives; a second sorted set says when each place ends. The
// first in the queue gets the lock, and nobody who is not first: not the newcomer who
// finds it free, either.
//
//	<prefix>lock:fair:{<key>}         owner, lease:<id> …
//	<prefix>lock:fair:{<key>}:queue   place → ticket
//	<prefix>lock:fair:{<key>}:places  place → when it ends
//
// A release makes the first in the queue the holder at once where that one is in the
// releasing process; else it tells it, and it comes for the lock. A waiter looks after
// its place three times in the time that one lasts (Config.PlaceTimeout). One that
// gives up leaves at once, wherever it stands; one that died is passed over when its
// place has ended. All times are the Redis server's: the clocks of the processes have
// no say. Where nobody at all looked after the queue for half of that time, it is the
// server that stood still (CLIENT PAUSE, a slow disk, SIGSTOP), and nobody loses a
// place for it. A waiter that was taken out by mistake comes back with its ticket, to
// the place it had.
//
// # States
//
// free → held → free → … with an empty queue; with waiters, free → the first one's
// turn → held by it, or passed to the next at the end of its place.
//
// # What is not guaranteed
//
//   - Throughput. Every grant goes to one particular waiter, and if that one is slow to
//     come, everybody waits for it; if it is dead, for as long as its place lasts.
//   - Cheap waiting: every waiter, not every process, has a place in Redis; that is what
//     order over all processes costs.
//   - One holder: what is said of package reentrant holds here.
//   - The order between those who arrive while Redis is failed over, or after it was
//     restarted empty: tickets that were lost are drawn anew, or brought back by those
//     who had them.
//
// # How to see it
//
// make bench-locks ARGS="-only one-key" prints grants per goroutine, and the longest
// wait, beside locks without an order. What a dead waiter and a promoted replica do:
//
//	go test -run 'TestFaults/(waiters-killed|replica)' -v ./internal/lock/failures
package fair
