// Package database keeps vouchers, orders and idempotency keys in MySQL, MariaDB
// or SQLite. It is the only package that knows gorm and SQL.
//
// [Open] gives a [DB]; its [DB.Vouchers], [DB.Orders], [DB.Shelf] and
// [DB.Idempotency] are the stores that the domain packages ask for. gorm maps rows where there is
// something to map; the statements of an order, which are what this project is
// about, stand as plain SQL in tx.go.
//
// # Two pools
//
// A transaction runs on a connection of the writers' pool, everything else on
// the readers'. That serves both engines. SQLite has one writer at a time, so its
// writers' pool has one connection and the queue for it stands in Go, where a
// context can end the wait. MySQL's writers are sessions with autocommit off: a
// transaction is begun by its first statement, without a round trip of its own.
//
// A small writers' pool is also a queue before the hot row. InnoDB gets slower
// with every transaction that waits for a row's lock; a connection that waits in
// Go costs it nothing.
//
// # What a transaction sees
//
// [Orders.Transact] begins at the first write. What is read before that sees what
// is committed at that moment, and no connection is held while the caller waits
// for a lock. On MySQL this is READ COMMITTED, spelled out; on SQLite it is what
// makes two buyers able to read the same stock at all, so that a weak policy is
// as weak there as it is on MySQL.
//
// # Failures
//
// failure.go is the one place that reads error numbers. Whoever calls a store
// sees the errors of order and voucher, or those of the context; the driver's own
// error is always wrapped inside.
package database
