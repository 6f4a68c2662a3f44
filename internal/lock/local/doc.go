// Package local is a mutex per key, in the memory of this process.
//
// # Algorithm
//
// A map from key to a queue in order of arrival: the first in the queue holds the key, the others wait. A release
// removes the first, and the next one becomes the holder. The last to leave removes the queue from the map. A
// synchronized block in a Java process does the same; here the wait has a limit and a context.
//
// # States
//
// A key is free (no queue) or held, with n waiters. A waiter leaves the queue when its wait limit passes or its context
// ends. Where it became the holder at that very moment, leaving is a release: the next waiter becomes the holder.
//
// # What is not guaranteed
//
//   - Exclusion between processes: each has its own map. A second instance of the
//     service is enough to break it.
//   - An end: a lease (TTL) is ignored. A holder that hangs holds the key as long as the
//     process lives. A holder that dies while its process lives is a bug, not a state.
//
// # How to see it break
//
// Run two instances and sell a voucher under {"lock":"local","scope":"voucher", "stock":"unguarded"}: with one instance
// the sale is right, with two it oversells. In the conformance suite, excludes-processes shows it.
package local
