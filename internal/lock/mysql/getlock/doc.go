// Package getlock is GET_LOCK on a connection of its own for each lease.
//
// # Algorithm
//
//	SELECT CONNECTION_ID()                        the number to end it by
//	SELECT GET_LOCK(name, 0)                      1: ours; 0: taken
//	SELECT GET_LOCK(name, 5)                      waits on the server, again and again
//	SELECT IS_USED_LOCK(name) = CONNECTION_ID()   while held: is it still ours?
//	SELECT RELEASE_LOCK(name)                     1: given back
//	KILL <number>                                 ends a wait, or a connection that broke
//
// A waiter stands in the server's queue, and a release wakes it at once. MySQL waits
// for whole seconds (it rounds a fraction, so that 0.3 does not wait at all), MariaDB
// for fractions too; here the server waits in slices of five seconds, and a wait that
// ends earlier, by its limit or its context, is ended by KILL from another connection
// until the server no longer knows it. To close the connection is not enough: the
// thread behind it may wait on and get the lock. A pool that has no connection left
// cannot send KILL; the thread then ends with its slice. The DSN's readTimeout has to
// be longer than a slice.
//
// Names belong to the server and not to a database, are compared without regard to
// case and may have 64 characters: see [Name].
//
// # States
//
// Free, or held by a connection. The server knows no lease. A fixed one (opts.TTL)
// is kept by the holder's process: when it has passed the holder is told and the lock
// released. The lock of a process that dies is free as soon as its connections close;
// Abandon closes the connection for that reason. Where a machine dies without closing
// them, the server notices by TCP keepalive or wait_timeout, which may take hours.
//
// # What is not guaranteed
//
//   - That nobody else gets in while the holder works. When the connection breaks
//     (a network device forgets it, an administrator ends it, the server restarts)
//     the server frees the lock at once, and the holder learns of it at the next
//     check (Config.CheckEvery) and goes on until then.
//   - An end of the lease while the process is paused: its connection stands, and so
//     does the lock, fixed lease or not.
//   - Re-entry. The server lets a connection in again, but each lease has its own.
//   - Order beyond one slice: whoever asks anew stands at the end. Of each process
//     only the first waiter stands in the server's queue.
//   - Holders' names: the server knows a connection's number. Of this process the
//     owners are known, others are called "connection <number>".
//   - That ForceRelease ends a holder: it asks for the holder's connection and then
//     sends KILL. A holder that releases in between has its connection ended all the
//     same, whatever it is used for by then.
//   - Replication: a replica that is promoted knows no lock.
//
// # How to see it break
//
// Sell a voucher under {"lock":"mysql-get-lock","scope":"voucher","stock":"unguarded",
// "lock_wait_ms":8000,"faults":[{"point":"critical-section","pause_ms":500}]} and end
// the holder's connection with KILL meanwhile, again and again (SELECT
// IS_USED_LOCK('lock:seckill:stock:<voucher>') tells its number): the next one is let in
// while the first one works, and both write the stock that they read.
// TestConnectionLossIsSeenByTheServerFirst in this package does that.
package getlock
