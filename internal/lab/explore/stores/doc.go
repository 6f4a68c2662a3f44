// Package stores tries what the stores do in every order: the database's half of package explore. It is tests alone,
// and -v shows what they covered.
//
// The statements of two or three orders of one voucher come in every order that READ COMMITTED allows. What runs is
// package order; the database is a model. The shortest orders that break a policy, and others, are replayed on real
// databases.
//
// The statements of what happens to one order at the same time (cancel, expire, webhooks, late money, refund, another
// buyer) come in every order on SQLite. What runs is package database. SQLite has one writer, so a transaction is one
// step there.
//
// The calls of three callers at the gate come in every order, and a reply is lost. What runs is package ledger with its
// scripts, on a Redis in this process. The database that its workers write is a few lines.
//
// What that does not cover: more orders and callers than were run; a server that dies; and, in the model, more than one
// transaction that waits for the same entry of the unique index, which the lock on the voucher's row rules out.
package stores
