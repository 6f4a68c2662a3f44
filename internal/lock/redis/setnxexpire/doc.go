// Package setnxexpire is SETNX with an expiry that a second command sets.
//
// # Algorithm
//
//	SETNX key owner       1: granted; 0: taken
//	PEXPIRE key ttl
//	DEL key
//
// This is what people wrote who knew the flaw of package setnx, before SET accepted NX and PX together. Waiters poll
// every few milliseconds.
//
// # States
//
// Free, held without an end, held until the lease ends. A lock is in the second state for one round trip; a holder that
// dies there leaves it there.
//
// # What is not guaranteed
//
//   - That a dead holder's lock becomes free. After a crash between SETNX and PEXPIRE the
//     key stays until somebody deletes it by hand. This is rarer than with package setnx,
//     and therefore harder to find.
//   - That a release deletes the holder's own lock. A holder that releases after its lease
//     ended deletes the next holder's lock, and that one the next, as in package naive.
//   - That nobody else gets the lock while the holder works: the lease is fixed
//     (opts.TTL, else [lock.DefaultTTL]) and nothing renews it.
//   - That a lost reply is harmless. Where the reply to SETNX is lost, the caller does not
//     know that it took the key, and so does not set its expiry either.
//   - That PEXPIRE finds the key. Its reply is ignored: if somebody deletes the key by
//     hand at that moment, the holder works without a lock.
//
// # How to see it break
//
// Sell a voucher under {"lock":"setnx-expire","scope":"voucher","faults":[{"point":
// "between-setnx-and-expire","effect":"abandon","probability":0.05}]}: after the crash every buyer gets "busy" until
// the end of the sale. In the conformance suite a holder dies after PEXPIRE, so freed-after-death holds; in
// TestDiesBetweenSetNXAndExpire it dies before.
package setnxexpire
