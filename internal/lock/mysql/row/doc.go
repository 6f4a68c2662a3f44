// Package row implements a lock as a row in a table with a unique key: INSERT acquires, DELETE releases. There are two
// mechanisms: mysql-row without expiry, and mysql-row-expiry ([Config].Expiry).
//
// # Algorithm
//
// The table is lock_rows (migrations/mysql/0004_lock_rows.up.sql). Each mechanism has its part of it.
//
//	INSERT INTO lock_rows … SELECT …, UTC_TIMESTAMP(6) + INTERVAL lease
//	  WHERE @@autocommit                                                   acquired, or error 1062
//	SELECT holder, owner, expires_at - UTC_TIMESTAMP(6) …                  the holder and its lease
//	UPDATE … SET holder = … WHERE … AND expires_at <= UTC_TIMESTAMP(6)     takes over an expired row
//	UPDATE … SET expires_at = … WHERE … AND holder IN (…) AND expires_at > UTC_TIMESTAMP(6)   renews many rows
//	DELETE … WHERE name = … AND holder = … AND expires_at > UTC_TIMESTAMP(6)                  releases
//
// The column holder has an id that is new for each acquisition. If the reply to an INSERT is lost, the repeated INSERT
// finds its own row by this id. The usual recipe deletes by the name alone, which could delete another holder's row;
// here every WHERE contains the id. All times are those of the server, so the clocks of the holders do not matter.
//
// An expired row is taken over by an UPDATE with a condition, not by INSERT … ON DUPLICATE KEY UPDATE. The latter
// counts affected rows depending on a flag of the connection (clientFoundRows), and its assignments see each other's
// results.
//
// A waiter polls every few milliseconds. Concurrent INSERTs and DELETEs of one row can deadlock (error 1213); the
// statement is then repeated at once.
//
// # States
//
// A lock is free (no row, or an expired one) or held.
//
// Without expiry a row stays until somebody deletes it. With expiry, an acquisition without opts.TTL gets the lease
// Config.WatchdogTimeout. It is renewed after every third of that time, with one statement for all leases of the
// process. An acquisition with opts.TTL gets that fixed lease. The holder is told before its lease can have ended, and
// when a renewal finds that the row is gone or has another holder.
//
// # What is not guaranteed
//
//   - Without expiry: that a lock ever becomes free again. A holder that dies leaves
//     its row, and nobody can distinguish a dead holder from a slow one. An operator
//     uses [Locker.ForceRelease]. opts.TTL is ignored, and nothing tells the holder
//     that it lost the lock.
//   - With expiry: that there is only one holder. A process that was paused for longer
//     than its lease continues until it is told. If the server's clock is set forward,
//     every lease ends early.
//   - That a lock survives a crash of the server, if the reply to its INSERT was lost: the
//     row that the repeated INSERT finds may not be on the disk yet. The server then
//     forgets it, and another caller gets the lock.
//   - Fencing tokens: a counter in the row would be deleted with the row.
//   - Re-entry, order and wake-up: an owner waits for itself, any waiter may be served
//     next, and a waiter notices a release at its next poll.
//   - No leftovers: a statement that the server carries out more than a second after its
//     caller gave up, or released, leaves a row, for ever or for its lease. An expired row
//     stays until the next acquisition of the key, or until it is swept an hour later
//     ([Sweep]).
//   - A bound for a try: it waits for a connection of the pool as long as its context
//     allows.
//
// # How to see it break
//
// Sell a voucher under {"lock":"mysql-row","scope":"voucher","faults":[{"point":
// "holder-crash","effect":"abandon","probability":0.05}]}. After the first death nobody gets the lock any more. With
// mysql-row-expiry instead, sales continue after one lease. In the conformance suite freed-after-death shows this.
package row
