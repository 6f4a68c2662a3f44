// Package database stores vouchers, orders and idempotency keys in MySQL, MariaDB or SQLite. It is the only package
// that knows gorm and SQL.
//
// [Open] returns a [DB]. Its [DB.Vouchers], [DB.Orders], [DB.AdmissionStore] and [DB.Idempotency] implement the stores
// that the domain packages declare. gorm maps rows to structs. The statements of an order, the subject of this project,
// are plain SQL in tx.go and admission_store.go.
//
// # Two pools
//
// A transaction runs on a connection of the writers' pool, or of a smaller one if it is the [AdmissionStore]'s, and
// everything else on the readers' pool. That serves both engines:
//
//	SQLite  has one writer at a time. The writers' pool has one connection, and transactions queue for
//	        it in Go, where a context can end the wait.
//	MySQL   The writers are sessions with autocommit off. The first statement begins the transaction,
//	        without a round trip of its own.
//
// A small writers' pool is also a queue in front of the hot row: every transaction that waits for a row lock slows
// InnoDB down, whereas a goroutine that waits for a connection costs it nothing. A row that somebody keeps locked fills
// it with buyers of one voucher, which is why the accepted orders of others do not pass through it.
//
// # What a transaction sees
//
// [Orders.Transact] begins the transaction at the first write. A read before that sees what is committed at that
// moment, and no connection is held while the caller waits for a lock. On MySQL the isolation level is READ COMMITTED,
// set explicitly. On SQLite the late begin is what lets two buyers read the same stock at all, so a weak policy is as
// weak there as it is on MySQL.
//
// # Ways to take from the stock
//
// An order takes from the voucher's row (tx.go), from a part of the stock (parts.go), or together with other orders
// (grouped.go). See docs/stock.md.
//
// # What a crash undoes
//
// A transaction can be seen before it is on the disk. A method that changes nothing, since another transaction has made
// the change, waits until no crash can undo that change; see flushCommits. Methods that only read do not wait, except
// where their documentation says so.
//
// # Failures
//
// Only failure.go reads error numbers. The stores return the errors of packages order and voucher, or the context's.
// They always wrap the driver's own error.
package database
