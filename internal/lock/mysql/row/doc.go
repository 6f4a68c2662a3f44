// Package row is a lock that is a row: a table with a unique key, INSERT to take,
// DELETE to give back. It comes bare (mysql-row) and with an end (mysql-row-expiry,
// [Config].Expiry).
//
// # Algorithm
//
// The table is lock_rows (migrations/mysql/0004_lock_rows.up.sql); each of the two
// has its part of it.
//
//	INSERT INTO lock_rows … VALUES (…, UTC_TIMESTAMP(6) + INTERVAL lease)  ours, or 1062
//	SELECT holder, owner, expires_at - UTC_TIMESTAMP(6) …                  who has it, for how long
//	UPDATE … SET holder = … WHERE … AND expires_at <= UTC_TIMESTAMP(6)     takes an expired one over
//	UPDATE … SET expires_at = … WHERE … AND holder IN (…) AND expires_at > UTC_TIMESTAMP(6)   renews many
//	DELETE … WHERE name = … AND holder = … AND expires_at > UTC_TIMESTAMP(6)                  gives back
//
// The holder is an id that is new with each acquisition, so that an INSERT that is
// sent again, because the reply to the first was lost, finds its own row. The recipe
// as it is usually given deletes by the resource alone; that would delete anybody's
// row, and so the id stands in every WHERE here. All times are the server's, so that
// the clocks of the holders do not matter.
//
// The take-over is an UPDATE with a guard and not INSERT … ON DUPLICATE KEY UPDATE:
// what that one counts as affected depends on a flag of the connection
// (clientFoundRows), and its assignments see each other's results.
//
// Who waits asks again every few milliseconds. A deadlock among those who insert and
// delete one row (1213) is nobody's fault and is tried again at once.
//
// # States
//
// Free (no row, or one that has expired) or held. Bare, a row stays until somebody
// deletes it. With an end, an acquisition without a lease gets Config.WatchdogTimeout,
// renewed every third of it, all of a process in one statement; one with opts.TTL
// keeps that. The holder is told before its lease can have ended, and when a renewal
// finds the row gone or somebody else's.
//
// # What is not guaranteed
//
//   - Bare: that a lock is ever free again. A holder that dies leaves its row, and
//     nobody can tell a dead holder from a slow one. [Locker.ForceRelease] is for an
//     operator who knows. opts.TTL is ignored, and nobody tells the holder.
//   - With an end: that there is one holder. A process that is paused longer than
//     its lease goes on for the moment it takes to be told. A server whose clock is
//     set forward ends every lease early.
//   - Fencing tokens: a counter in the row would go with the row.
//   - Re-entry, order and wake-up: an owner waits for itself, whoever asks at the
//     right moment gets in, and a release is noticed at the next poll.
//   - A statement that the server carries out more than a second after its caller
//     gave up leaves a row: for ever, or for its lease.
//   - A row that has expired stays until the key is wanted again.
//   - A try waits for a connection of the pool as long as its context allows.
//
// # How to see it break
//
// Sell a voucher under {"lock":"mysql-row","scope":"voucher","faults":[{"point":
// "holder-crash","effect":"abandon","probability":0.05}]}: after the first death
// nobody gets in any more. With mysql-row-expiry in its place sales go on after one
// lease. In the conformance suite it is freed-after-death that shows it.
package row
