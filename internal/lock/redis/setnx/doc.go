// Package setnx is the lock that everybody writes first: SETNX to acquire, DEL to release.
//
// # Algorithm
//
//	SETNX key owner     1: granted; 0: taken
//	DEL key
//
// Waiters poll every few milliseconds.
//
// # States
//
// The key exists or it does not. There is no state for "its holder is dead": that is the flaw.
//
// # What is not guaranteed
//
//   - That a dead holder's lock becomes free. There is no expiry, whatever lease (TTL) is
//     asked for: after a crash between SETNX and DEL the key stays until somebody deletes
//     it by hand.
//   - That a release deletes the holder's own lock. Once somebody has deleted the key by
//     hand, the old holder's DEL deletes the next holder's lock.
//   - That a lost reply is harmless. Where the reply to SETNX is lost, the caller does not
//     know that it took the key, and a client that repeats the command is refused because
//     of its own first attempt. The key stays. To delete it on suspicion would be worse:
//     it may be another holder's.
//   - That a holder is told of anything.
//
// # How to see it break
//
// Sell a voucher under {"lock":"setnx","scope":"voucher","faults":[{"point":"holder-crash",
// "effect":"abandon","probability":0.05}]}: after the crash every buyer gets "busy" until the end of the sale. In the
// conformance suite, freed-after-death shows it.
package setnx
