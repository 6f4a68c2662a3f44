// Package forupdate implements a lock as SELECT … FOR UPDATE. The transaction stays open as long as the lock is held.
// Each lease has its own connection.
//
// # Algorithm
//
// The table is lock_for_update (migrations/mysql/0005_lock_for_update.up.sql).
//
//	SELECT 1 … WHERE name = …                         does the row exist?
//	INSERT IGNORE INTO lock_for_update …              if not; commits at once
//	SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION
//	SELECT 1 … WHERE name = … FOR UPDATE [NOWAIT]     the lock
//	UPDATE … SET holder = …, owner = …, connection = …   names the holder; never committed
//	ROLLBACK                                          releases
//	DELETE …                                          unless another connection has locked the row
//
// The UPDATE names the holder. Others read it at READ UNCOMMITTED, for errors and for Inspect. The rollback removes it,
// also the rollback that the server makes when the connection ends.
//
// The row is not deleted in the transaction that holds the lock: this would wake all waiters, none of them would find a
// row, and all would start again at once (a thundering herd). It is deleted after the rollback unless a waiter has
// locked it (FOR UPDATE SKIP LOCKED). A waiter that then finds no row starts again.
//
// Two transactions never have the lock at the same time, because SELECT … FOR UPDATE gives an exclusive lock on an
// existing row until the transaction ends. The DELETE needs this lock too, so it never deletes the row of a holder. If
// a DELETE wakes a waiter, its SELECT returns no row; the waiter has nothing, rolls back and starts again.
//
// A connection that creates or deletes a row locks it for a moment. A try that meets a locked row therefore reads the
// holder: it is refused if there is one, otherwise it tries again, for Config.Timeout at most; then the row counts as
// taken. There is no INSERT that does not wait. A try cuts its INSERT short after 200 ms, which costs the connection,
// and continues on another one.
//
// The server waits as long as the connection's innodb_lock_wait_timeout: whole seconds, set in the DSN, whose
// readTimeout must be longer. The statement is repeated until the wait has ended. A wait that its limit or its context
// ends is ended by KILL from another connection. A try uses NOWAIT, which MySQL answers with error 3572 and MariaDB
// with
// 1205.
//
// # States
//
// A lock is free (no row, or a row that nobody has locked) or held by a transaction. The server knows no leases. The
// holder's process keeps a fixed lease (opts.TTL) and checks the connection regularly.
//
// # What is not guaranteed
//
//   - Free connections. Every holder keeps a connection while it works, and the first
//     waiter of each key keeps another one. With N connections in the pool, N holders
//     leave none for anybody, not even for the holders' own work on that pool. An
//     acquisition then returns [lock.ErrUnavailable] at its limit. Long transactions
//     also delay the server's purge.
//   - That there is only one holder. As with GET_LOCK, the server rolls back a broken
//     connection and the row is free at once. The holder is told at its next check
//     (Config.CheckEvery).
//   - Re-entry: an owner waits for itself.
//   - Order. MariaDB serves waiters in order of arrival; MySQL weighs them.
//   - No leftovers: a dead holder leaves its row, which is free, until the key is used
//     again. Nothing else deletes such rows: a node of a cluster does not see the row
//     locks on other nodes, and its DELETE would abort their holders' transactions.
//   - That ForceRelease ends the right holder: it asks for the holder's connection and
//     then sends KILL. If the holder releases in between, its connection is ended all
//     the same, whatever it is used for by then.
//   - The holder's name at every moment: between the grant and the UPDATE it is
//     unknown.
//
// # How to see it break
//
// Sell vouchers under {"lock":"mysql-for-update","scope":"user","faults":[{"point":
// "critical-section","pause_ms":1000}]} with more buyers at once than the pool has connections, or more in all
// processes than the server accepts (max_connections). The others get no connection and no lock, and are told that the
// service is unavailable. TestHoldersExhaustThePool in this package does this.
package forupdate
