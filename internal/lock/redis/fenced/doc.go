// Package fenced is the reentrant lock with a fencing token that grows with every new holder. The store checks the
// token with each write, which makes late writes harmless. No lock can do that by itself (Kleppmann, "How to do
// distributed locking", 2016; the sequencer of Burrows, "The Chubby lock service", 2006).
//
// # Algorithm
//
// As in package reentrant, but with its own scripts on a hash from the first lease on, and
//
//	<prefix>lock:fenced:{<key>}        owner, lease:<id> …, token
//	<prefix>lock:fenced:{<key>}:token  the newest token, for an hour after its grant
//
// The token of a new holder is the server's clock in microseconds, or one more than the newest token, whichever is
// greater. Re-entry keeps the holder's token. Each of the two covers a failure of the other: the counter a clock that
// steps back, the clock a counter that is lost, by a failover or at the end of its hour. This is a hybrid logical clock
// (Kulkarni et al., 2014) of one node. A plain INCR would have to be kept for every key for ever, and would repeat
// tokens after a failover.
//
// The store does the other half. Under the policy {"lock":"fenced","scope":"voucher", "stock":"fenced"} the stock is
// written by
//
//	UPDATE vouchers SET stock = stock - 1, fence_token = ?
//	WHERE id = ? AND stock > 0 AND fence_token <= ?
//
// A holder that was paused past its lease carries an old token by then. It changes no row, and its order is refused.
//
// # States
//
// As package reentrant; and for an hour after the last grant, free with a counter.
//
// # What is not guaranteed
//
//   - A single holder: no more than with reentrant. Two may work; one may write.
//   - Anything for a write without the token, or for one that is checked by another store
//     than the one that keeps the newest token.
//   - One order among the tokens of several keys. With {"scope":"user"} each user's key has
//     its own tokens, but all are compared on one voucher's row: a write may be refused
//     although its lock was held. Use {"scope":"voucher"}.
//   - Growth where the counter is lost and the clock steps back by more than has passed
//     since. Then the store refuses the new holders' writes until the clock has caught up.
//     That costs time and nothing else.
//
// # How to see it hold
//
// The laboratory stops a holder with SIGSTOP for longer than its lease. Under reentrant the late write succeeds; under
// fenced it is refused. A test moves the server's clock, deletes the counter, and does both at once:
//
//	go run ./cmd/lab run paused-holder paused-holder-fenced
//	go test -run TestTokensAndTheServersClock/fenced -v ./internal/lock/lockers
package fenced
