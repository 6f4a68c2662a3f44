// Package mysqlio is what the MySQL mechanisms have in common: what errors mean to
// a lock, and locks that live as long as a connection.
//
// # Locks of a connection
//
// GET_LOCK and SELECT … FOR UPDATE give a lock to a connection, and the server
// takes it back when that connection ends. A [Keeper] does what is the same for
// both: it has a connection ([Session]) for each lease and for the one waiter of
// each key, it tells the holder when the connection has died, it ends fixed leases,
// which the server does not know, and it makes sure that what was given up is over.
// A mechanism adds its statements ([Claim]).
//
// What is given up is ended by its number (KILL) from another connection, until the
// server no longer knows it. Closing a connection is not enough: the thread behind
// it waits on, and the lock that it gets some time later is nobody's.
//
// A session on which a statement had no answer serves no other one: its transaction,
// and with it the lock, may be gone, or may be won on a connection that is about to be
// closed. For the same reason a grant that arrives after its wait has ended is given
// back, and not delivered.
//
// Waiters of one process stand in line here, in order of arrival, and only the first
// of them has a connection.
//
// # What the pool must be
//
// The caller's own: with autocommit, and with a readTimeout that is longer than any
// wait on the server. Every lease keeps one of its connections for itself.
package mysqlio
