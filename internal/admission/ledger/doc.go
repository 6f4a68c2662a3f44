// Package ledger is the only home of what admission keeps in Redis: the names of the keys, the Lua scripts, the format
// of an entry, and the state of a bucket. The gate writes it, the consumers in package fulfil take entries out of it,
// package reconcile reads it.
//
// # A bucket
//
// A voucher's stock is in one bucket or, where one server is not enough, in several. All keys of a bucket have the same
// hash tag, so they lie in one slot of a Redis Cluster. The keys of different buckets mostly do not. Each user belongs
// to one bucket ([BucketOf]), so one script can enforce one order per user.
//
//	key                       type    holds
//	adm:{voucher}             hash    epoch, seq, stock, back, ret, extra, busy, gen, begin, end, paused, rev, to:N, from:N
//	adm:{voucher}:users       hash    user -> accepted order
//	adm:{voucher}:users:E     hash    the users being prepared for epoch E
//	adm:{voucher}:orders      stream  accepted orders that are not persisted yet
//	adm:{voucher}:dead        stream  dead letters
//	adm:{voucher}:orders:tries hash   entry -> processes that began to write it alone, and have not finished
//	pair                      hash    generation, mark and name of the database, see package pairing
//	adm:{voucher}:done        channel ids of orders that are final, for all buckets
//
// An accepted order is its id or, if its request had an idempotency key, the id, a colon and a hash of the key
// ([Reserved]). So a user's order tells a repetition of its request from another request, for as long as the order
// itself is known. A 0 precedes an order that was cancelled or expired and takes a unit again, because its money came
// late ([ReservedLate]).
//
// # An entry
//
// The orders that one call accepts are in one entry, or in a few where they are many: an entry costs Redis, the network
// and the consumers as much as several orders in it. A consumer that cannot write all orders of an entry has split.lua
// replace it by entries of one order each, and only those are retried, counted or rejected alone.
//
//	one order        o order, u user, e epoch, s seq, p traceparent, t ms
//	several orders   e epoch, s seq, p traceparent, and for each order: user -> order, as in users
//
// The id of an entry begins with the time of acceptance; t has it where the entry was split off another one.
//
// The tag of bucket 0 is the voucher's id, of bucket N the id and ".N". The prefix of the installation precedes every
// key.
//
// # Scripts
//
// Each script is a file with a header that lists KEYS, ARGV and the replies, and has one method. Each may be repeated:
// the same call again, or an earlier call that arrives late, changes nothing more.
//
// Redis does not roll back a script that fails in the middle. So what can fail comes first, and what commits comes
// last, in one command where that is possible. Scripts check everything before they write. What the server may refuse,
// because its ACL or a rename forbids the command, is refused at the first write, or is tried where it changes nothing.
// A script that must change several keys marks the bucket as busy first ([FieldBusy]), and clears the mark with its
// last write to the bucket. Nobody works on a bucket that stays busy: the gate closes it, drains it, and rebuilds it
// from the database.
//
//	admit.lua           [Ledger.Admit]              decide about a batch of orders
//	state.lua           [Ledger.State]              read a bucket
//	close.lua           [Ledger.Close]              accept nothing until the next epoch
//	open.lua            [Ledger.Open]               accept orders under an epoch
//	window.lua          [Ledger.SetWindow]          set when it sells
//	give.lua, take.lua  [Ledger.Give], [Ledger.Take]  move stock between buckets
//	return.lua          [Ledger.Return]             take back the stock of orders
//	replicate.lua       [Ledger.Replicate]          wait until replicas have an order
//	replicate_all.lua   [Ledger.ReplicateAll]       wait until replicas have entries, and all else
//	remove.lua          [Ledger.Remove]             remove the keys of a forgotten voucher
//	ensure_group.lua    [Consumers.EnsureGroup]     create the consumer group
//	acknowledge.lua     [Consumers.Acknowledge]     take persisted entries out
//	dead_letter.lua     [Consumers.DeadLetter]      move an entry to the dead letters
//	split.lua           [Consumers.Split]           replace an entry by one for each of its orders
//	attempt.lua         [Consumers.BeginAttempt], [Consumers.EndAttempt]  count what ends a process
//	trial.lua           [Ledger.Try]                try every command that the others need
//	remove_consumer.lua [Consumers.RemoveConsumer]  leave the consumer group
//
// # Stock in transit
//
// Buckets give stock to each other in two steps. give.lua takes it out of one bucket and adds it to that bucket's to:N,
// which is the total given to bucket N in this epoch. take.lua adds what has not arrived yet to the stock of bucket N
// and sets its from:M to the same total. The difference between the two totals is in transit. Any process that sees it
// can finish the transfer, so a process that dies between the steps loses nothing.
//
// # Stock that is given back
//
// Orders that are cancelled, expired or refunded give their units back in the database, which counts them: a total for
// each bucket and epoch. return.lua adds what has not arrived yet to the stock and sets ret to the same total, as
// take.lua does. So it may be repeated, and a call that is lost is made up for by the next one. A bucket that is opened
// begins with ret 0, and with a stock that has all that was given back before. Units that an administrator adds are
// counted, and arrive, as if the first bucket got them back.
package ledger
