// Package native is SET NX PX with a unique value, where the server itself compares the value and deletes the key, or
// sets its new end. It needs no script.
//
// # Algorithm
//
//	SET key value NX GET PX ttl          nil or value: granted; else: taken
//	SET key value IFEQ value GET PX ttl  renewal: the value: it ends later; nil: expired; else: another holder's
//	DELIFEQ key value                    release: 1: deleted; 0: expired or another holder's
//	DELEX key IFEQ value                 the same
//
// The value is unique across processes (a random part and a counter) and new with each acquisition. The owner follows
// it, for error messages and people to read. Because NX comes with GET (Redis 7.0), a SET that is repeated after a lost
// reply finds its own value and not just "taken". Waiters poll every few milliseconds. A lease without a TTL of its own
// is renewed every third of it, all those of a process in one pipeline.
//
// # Servers
//
//	            DELIFEQ   DELEX   SET IFEQ
//	Valkey      9.0       9.2     8.1
//	Redis       –         8.4     8.4
//
// The first acquisition asks the server for DELIFEQ and then for DELEX, with a value that nobody has written. On a
// server that has neither, every acquisition fails with [lock.ErrUnavailable], which names the versions, and takes no
// key.
//
// # States
//
// Free, or held until the lease ends. The server runs each command as one step, so a release has no intermediate state.
//
// # Cost
//
// One round trip to acquire and one to release, one command each. The first acquisition of a process takes one or two
// more, and so does a release that finds its lock gone.
//
// # What is not guaranteed
//
//   - A single holder: as with every lease, a process that is paused for longer writes on for the moment it takes to be
//     told, and a replica that is promoted without the lock grants it again.
//   - The reason of a failed release. The reply 0 does not tell "expired" from "another holder's". A GET follows, and tells
//     what is there by then.
//   - That a failed acquisition leaves nothing. Where there is no reply, or the context ends first, the value is deleted
//     once. A SET that the server executes after that takes the key for its lease, and nobody releases it.
//   - Re-entry: an owner that acquires again waits for itself. Order and wake-up: a free lock goes to the caller that asks
//     first.
//   - A correct error after a release whose reply was lost and that the client repeats by itself: the repetition finds the
//     key gone and returns ErrExpired, a harmless false alarm. A release that the caller repeats after
//     [lock.ErrUnavailable] is recognised.
//   - Commands that go-redis ends with their context: give it a client with ContextTimeoutEnabled.
//
// # How to see it break
//
// A pause inside the work does not break it, and neither does a late release: the laboratory's native-atomic-release is
// lua-atomic-release without a script. A pause of the whole process for longer than the lease breaks it, as it does
// [seckill/internal/lock/redis/reentrant].
package native
