// Package getlock implements a lock as GET_LOCK. Each lease has its own connection.
//
// # Algorithm
//
//	SELECT CONNECTION_ID(), @@autocommit          the number for KILL, and whether the pool suits
//	SELECT GET_LOCK(name, 0)                      1: acquired; 0: taken
//	SELECT GET_LOCK(name, 5)                      waits on the server; repeated
//	SELECT IS_USED_LOCK(name) = CONNECTION_ID()   while held: does it still hold?
//	SELECT RELEASE_LOCK(name)                     1: released
//	KILL <number>                                 ends a wait or a broken connection
//
// A waiter is in the server's queue, and a release wakes it at once. MySQL waits for whole seconds (it rounds
// fractions, so 0.3 does not wait at all); MariaDB accepts fractions. Here the server waits in slices of five seconds.
// A wait that ends earlier, by its limit or its context, is ended by KILL from another connection, repeated until the
// server no longer knows the connection. Closing the connection is not enough: its server thread may keep waiting and
// get the lock. If the pool has no free connection for KILL, the thread ends with its slice. The DSN's readTimeout must
// be longer than a slice.
//
// The names of locks belong to the server, not to a database. The server ignores their case and allows 64 characters:
// see [Name].
//
// # States
//
// A lock is free or held by a connection. The server knows no leases. A fixed lease (opts.TTL) is kept by the holder's
// process: when it has passed, the process tells the holder and releases the lock. The lock of a process that dies is
// free as soon as its connections close; for that reason Abandon closes the connection. If a machine dies without
// closing its connections, the server notices only by TCP keepalive or wait_timeout, which may take hours.
//
// # What is not guaranteed
//
//   - That there is only one holder. When the connection breaks (a network device drops
//     it, an administrator ends it, the server restarts), the server frees the lock at
//     once. The holder continues until it is told at its next check
//     (Config.CheckEvery).
//   - The end of a fixed lease while the process is paused: its connection stays open,
//     so it keeps the lock.
//   - Re-entry. The server lets a connection acquire again, but each lease has its own
//     connection.
//   - Order beyond one slice: each repeated GET_LOCK goes to the end of the server's
//     queue. Only the first waiter of each process is in that queue.
//   - Names of holders: the server knows only the number of a connection. The owners of
//     this process are known; others are called "connection <number>".
//   - That ForceRelease ends the right holder: it asks for the holder's connection and
//     then sends KILL. If the holder releases in between, its connection is ended all
//     the same, whatever it is used for by then.
//   - Replication: a promoted replica knows no locks.
//
// # How to see it break
//
// Sell a voucher under {"lock":"mysql-get-lock","scope":"voucher","stock":"unguarded",
// "lock_wait_ms":8000,"faults":[{"point":"critical-section","pause_ms":500}]}. Meanwhile end the holder's connection
// with KILL several times; SELECT IS_USED_LOCK('lock:seckill:stock:<voucher>') returns its number. The next buyer gets
// the lock while the first one works, and both write the stock that they read. TestConnectionLossIsSeenByTheServerFirst
// in this package does this.
package getlock
