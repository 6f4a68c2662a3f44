// Package local is a mutex for each key, in the memory of this process.
//
// # Algorithm
//
// A map from key to a queue in order of arrival: the first in it holds the key,
// the others wait. Whoever leaves the first place, by release, lets the next move
// up; the last to leave takes the queue out of the map. It is what a synchronized
// block does in one Java process, with a wait limit and a context.
//
// # States
//
// A key is free (no queue) or held, with n waiting. A waiter leaves the queue
// when its limit passes or its context ends. Should it have moved up to the first
// place at that very moment, leaving is a release and passes the key on.
//
// # What is not guaranteed
//
//   - Anything between two processes: each has a map of its own. A second
//     instance of the service is enough to break it.
//   - An end: a lease (TTL) is ignored. A holder that hangs holds the key for
//     as long as the process lives. A holder that dies alone, without its
//     process, is a bug here and not a state.
//
// # How to see it break
//
// Run two instances and sell a voucher under {"lock":"local","scope":"voucher",
// "stock":"unguarded"}: it holds with one instance and oversells with two. In
// the conformance suite it is excludes-processes that shows it.
package local
