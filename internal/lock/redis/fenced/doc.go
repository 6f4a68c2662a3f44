// Package fenced is the reentrant lock with a fencing token that grows with every
// new holder, for the store to check with each write: the token makes late writes
// harmless, which no lock can by itself (Kleppmann, "How to do distributed locking",
// 2016; the sequencer of Burrows, "The Chubby lock service", 2006).
//
// # Algorithm
//
// As in package reentrant, with scripts of their own on a hash from the first lease
// on, and with
//
//	<prefix>lock:fenced:{<key>}        owner, lease:<id> …, token
//	<prefix>lock:fenced:{<key>}:token  the newest token, for an hour after its grant
//
// A new holder's token is the server's clock in microseconds, or one more than the
// newest token, whichever is greater; re-entry keeps the holder's. Either of the two
// alone would do while the other fails: a clock that steps back is caught by the
// counter; a counter that is lost, by a failover or at the end of its hour, by the
// clock. This is a hybrid logical clock (Kulkarni et al., 2014) of one node. A plain
// INCR would have to be kept for every key for ever, and after a failover would give
// out tokens a second time.
//
// The store has the other half: under the policy {"lock":"fenced","scope":"voucher",
// "stock":"fenced"} the stock is written by
//
//	UPDATE vouchers SET stock = stock - 1, fence_token = ?
//	WHERE id = ? AND stock > 0 AND fence_token <= ?
//
// A holder that was paused past its lease carries an old token by then, changes no
// row, and its order is refused.
//
// # States
//
// As package reentrant: free → held 1 … n times → free, or passed on; and for an hour
// after the last grant, free with a counter.
//
// # What is not guaranteed
//
//   - One holder at a time: no more than with reentrant. Two may work; one may write.
//   - Anything for a write that does not carry the token, or is checked by a store
//     other than the one that keeps the newest token.
//   - One order among tokens of several keys. With {"scope":"user"} each user's key has
//     its own; on one voucher's row they are compared all the same, and a write may be
//     refused although its lock was held. Use it with {"scope":"voucher"}.
//   - Growth where the counter is lost and the clock steps back by more than has passed
//     since: the new holders' writes are then refused until the clock has caught up.
//     That loses time and nothing else.
//
// # How to see it hold
//
// internal/lock/failures stops a holder with SIGSTOP for longer than its lease:
// under reentrant the late write lands, under fenced it is refused. It also moves the
// server's clock, deletes the counter, and does both at once:
//
//	go test -run 'TestFaults/(holder-stopped|clock-moved)' -v ./internal/lock/failures
package fenced
