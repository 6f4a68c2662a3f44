// Package setnx is the first lock that everybody writes: SETNX to take, DEL to
// give back.
//
// # Algorithm
//
//	SETNX key owner     1: ours; 0: taken
//	DEL key
//
// Who waits asks again every few milliseconds.
//
// # States
//
// The key exists or it does not. There is no third state for "its holder is
// dead", and that is the trouble.
//
// # What is not guaranteed
//
//   - That a dead holder's lock is ever free again. There is no expiry, whatever
//     lease (TTL) is asked for: a crash between SETNX and DEL takes the key for
//     ever, until somebody deletes it by hand.
//   - That a release is the holder's. After that somebody has deleted the key by
//     hand, the old holder's DEL deletes the next holder's lock.
//   - That a lost reply is harmless. If the answer to SETNX is lost, nobody knows
//     that the key was taken; a client that repeats the command is refused by its
//     own first try. The key stays. Deleting it on suspicion would be worse: it
//     might be somebody else's.
//   - That a holder is told of anything.
//
// # How to see it break
//
// Sell a voucher under {"lock":"setnx","faults":[{"point":"holder-crash",
// "effect":"abandon","probability":0.05}]}: whoever comes after the crash gets
// "busy" until the end of the sale. In the conformance suite it is
// freed-after-death that shows it.
package setnx
