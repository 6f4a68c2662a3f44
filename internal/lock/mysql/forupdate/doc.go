// Package forupdate is SELECT … FOR UPDATE in a transaction that stays open as long
// as the lock is held, on a connection of its own.
//
// # Algorithm
//
// The table is lock_for_update (migrations/mysql/0005_lock_for_update.up.sql).
//
//	SELECT 1 … WHERE name = …                         is there a row?
//	INSERT IGNORE INTO lock_for_update …              if not; committed by itself
//	SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION
//	SELECT 1 … WHERE name = … FOR UPDATE [NOWAIT]     the lock
//	UPDATE … SET holder = …, owner = …, connection = …   signs it, never committed
//	ROLLBACK                                          gives it back
//	DELETE …                                          if nobody has the row by then
//
// What the holder writes is there for others to read at READ UNCOMMITTED: it names
// the holder in errors and to Inspect, and the rollback takes it away, also the one
// that the server makes when the connection ends. The row is not deleted by the
// transaction that is the lock: its waiters would all be let in to find nothing, and
// start over in a herd. It is deleted after the rollback, unless a waiter has it
// (FOR UPDATE SKIP LOCKED); who then finds no row starts over.
//
// That two transactions never have the lock follows from one thing: who was given the
// row by SELECT … FOR UPDATE has an exclusive lock on a row that exists, until its
// transaction ends. The DELETE needs that lock, too, so that it never takes away the
// row of a holder. A waiter may be woken by a DELETE; its SELECT then gives no row,
// it has nothing, and it rolls back and starts over.
//
// Rows are locked for a moment by those who make or delete them. A try that meets a
// locked row therefore looks for the holder's signature, and is refused only if there
// is one; else it tries again. An INSERT cannot be told not to wait. A try cuts it short
// after 200 ms, which costs the connection, and goes on with another one.
//
// The server waits as long as the connection's innodb_lock_wait_timeout (whole
// seconds; the DSN sets it, and its readTimeout has to be longer), and is asked again
// until the wait is over. A wait that ends by its limit or its context is ended by
// KILL from another connection. A try uses NOWAIT, which MySQL answers with error
// 3572 and MariaDB with 1205.
//
// # States
//
// Free (no row, or one that nobody has locked) or held by a transaction. The server
// knows no lease; a fixed one (opts.TTL) is kept by the holder's process, as is the
// regular look at the connection.
//
// # What is not guaranteed
//
//   - Room. A holder keeps a connection as long as it works, and the first waiter of
//     each key another: with N connections in the pool, N holders leave none for
//     anybody, the holders' own work on that pool included. An acquisition then
//     gives [lock.ErrUnavailable] at its limit. And long transactions hold back the
//     server's purge.
//   - That nobody else gets in while the holder works: as with GET_LOCK a connection
//     that breaks is rolled back, the row is free at once, and the holder learns of
//     it at the next check (Config.CheckEvery).
//   - Re-entry: an owner waits for itself.
//   - Order. MariaDB serves those who wait in order of arrival; MySQL weighs them.
//   - A dead holder leaves its row, which is free, until the key is used again.
//   - That ForceRelease ends a holder: it asks for the holder's connection and then
//     sends KILL. A holder that releases in between has its connection ended all the
//     same, whatever it is used for by then.
//   - The holder's name at every moment: between grant and signature it is unknown.
//
// # How to see it break
//
// Sell vouchers under {"lock":"mysql-for-update","scope":"user","faults":[{"point":
// "critical-section","pause_ms":1000}]} with more buyers at once than the pool has
// connections, or all processes together than the server takes (max_connections):
// those beyond get no connection, and no lock, and are told that the service is
// unavailable. TestHoldersExhaustThePool in this package does that.
package forupdate
