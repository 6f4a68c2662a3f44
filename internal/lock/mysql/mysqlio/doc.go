// Package mysqlio has what the MySQL mechanisms have in common: the translation of errors, and locks that last as long
// as a connection.
//
// # Locks of a connection
//
// GET_LOCK and SELECT … FOR UPDATE give a lock to a connection. The server takes it back when the connection ends.
// [ConnectionLocks] does what is the same for both:
//
//   - It opens a connection ([Session]) for each lease, and one for the first waiter of
//     each key.
//   - It tells the holder when its connection has died.
//   - It ends fixed leases, which the server does not know.
//   - It makes sure that an attempt that was given up holds no lock later.
//
// A mechanism adds its statements as an [Attempt].
//
// A session that is given up is ended by its connection number (KILL) from another connection, until the server no
// longer knows it. Closing the connection is not enough: its server thread keeps waiting, may get the lock later, and
// then nobody releases it.
//
// After a statement without an answer a session is not used again. Its transaction, and with it the lock, may be gone;
// or the lock may be won on a connection that is about to be closed. For the same reason a grant that arrives after the
// end of its wait is given back instead of delivered.
//
// The waiters of one process queue locally in order of arrival. Only the first one has a connection.
//
// # Requirements on the pool
//
// The pool belongs to the caller. It needs autocommit, without which an acquisition fails with [ErrNoAutocommit], and a
// readTimeout longer than any wait on the server. Every lease keeps one of its connections.
package mysqlio
