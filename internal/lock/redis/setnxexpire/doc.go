// Package setnxexpire is SETNX with an expiry that comes in a second command.
//
// # Algorithm
//
//	SETNX key owner       1: ours; 0: taken
//	PEXPIRE key lease
//	DEL key
//
// It is what people wrote who had been bitten by the lock of package setnx, and
// before SET took NX and PX together. Who waits asks again every few milliseconds.
//
// # States
//
// Free, held without an end, held until the lease ends. A lock is in the second
// state for one round trip; a holder that dies there leaves it there.
//
// # What is not guaranteed
//
//   - That a dead holder's lock is ever free again. A crash between SETNX and
//     PEXPIRE takes the key for ever, until somebody deletes it by hand. It is
//     rarer than with package setnx, and for that harder to find.
//   - That a release is the holder's. A holder that is later than its lease
//     deletes the next one's lock, and so on down the line, as in package naive.
//   - That nobody else gets in while the holder works: its lease is fixed
//     (opts.TTL, else [lock.DefaultTTL]) and nothing renews it.
//   - That a lost reply is harmless. If the answer to SETNX is lost, nobody knows
//     that the key was taken, and so nobody gives it an end either.
//   - That PEXPIRE finds the key. Its reply is not looked at: who deletes the key
//     by hand at that moment leaves a holder without a lock.
//
// # How to see it break
//
// Sell a voucher under {"lock":"setnx-expire","faults":[{"point":
// "between-setnx-and-expire","effect":"abandon","probability":0.05}]}: whoever
// comes after the crash gets "busy" until the end of the sale. The conformance
// suite lets a holder die after PEXPIRE, and there freed-after-death holds;
// TestDiesBetweenTheTwo lets it die before.
package setnxexpire
