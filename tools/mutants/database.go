package main

// inDatabase lists faults of writing orders, accepted ones among them, into the database.
func inDatabase() []mutant {
	const (
		fulfil    = "./internal/fulfil"
		database  = "./internal/database"
		reconcile = "./internal/reconcile"
	)
	return []mutant{
		{"stock that nobody can buy is not reported", "internal/reconcile/reading.go",
			"return max(0, l.drift()) }", "return min(0, l.drift()) }", reconcile + " ./internal/service"},
		{"a server that takes no writes is accepted at the start", "internal/database/settings.go",
			`if value := variables[name]; value != "" && value != "OFF" {`, `if value := variables[name]; value != "" && value != "OFF" && name == "" {`, database},
		{"a session that has not what was set in it is used", "internal/database/settings.go",
			"there && value != wanted[name] {", "there && value != wanted[name] && !transactional && name == \"\" {", database},
		{"an id that another voucher's order has looks like a user's second order", "internal/database/admission_store.go",
			"if _, of := users[row.VoucherID]; !of {", "if _, of := users[row.VoucherID]; !of && row.ID == 0 {", database},
		{"each probe keeps a write of its own waiting", "internal/database/writable.go",
			"	if s.current != nil {\n		return s.current\n	}\n", "", database},
		{"a repeated reservation takes its own row for another's", "internal/database/idempotency.go",
			"case repeated && row.ResourceID == fresh.ResourceID", "case !repeated && row.ResourceID == fresh.ResourceID", database},
		{"a repeated insertion of a voucher fails because of its own row", "internal/database/vouchers.go",
			"if repeated && errors.Is(err, errDuplicate) {", "if !repeated && errors.Is(err, errDuplicate) {", database},
		{"an entry is acknowledged before its order is committed", "internal/fulfil/persist.go",
			"	began := w.health.begin()\n	statuses", "	_ = w.reader.acknowledge(ctx, byStream(batch))\n	began := w.health.begin()\n	statuses", fulfil},
		{"a stream that is empty is read for ever", "internal/fulfil/watch_list.go",
			"if n > 0 || now.Before(s.awakeUntil) {", "if n >= 0 || now.Before(s.awakeUntil) {", fulfil},
		{"a stream that rests is not looked at", "internal/fulfil/watch_list.go", "most := len(due) + restingLooks", "most := len(due)", fulfil},
		{"an order that cannot be written is tried for ever", "internal/fulfil/retry.go",
			"if queued.countedFailures >= w.config.MaxFailures {", "if false {", fulfil},
		{"the second unit of an order that was cancelled stays reserved", "internal/admission/contract/contract.go", "!waits && !again", "!waits && (!again || a.OrderID >= 0)",
			"./internal/admission/contract " + database + " ./internal/lab/explore/stores"},
		{"an order is blamed for an outage", "internal/fulfil/failure.go",
			"return !transient(err) || errors.Is(err, order.ErrRefused)", "return err != nil", fulfil},
		{"a voucher that the database refuses holds up the others", "internal/fulfil/persist.go",
			"if one && b.failures[voucherID] >= maxRefused {", "if one && b.failures[voucherID] >= 1<<30 {", fulfil},
		{"an order that fails again and again is tried before others", "internal/fulfil/retry_queue.go",
			"cmp.Compare(a.failures, b.failures)", "cmp.Compare(b.failures, a.failures)", fulfil},
		{"the pauses of a stream that fails do not grow", "internal/fulfil/retry_queue.go", "	p.failures++\n", "	p.failures = 1\n", fulfil},
		{"orders that were set aside no longer hold back new ones", "internal/fulfil/retry_queue.go",
			"known && e.untried() {", "known && e.untried() && key.id == \"\" {", fulfil},
		{"the orders of every voucher are an administrator's list", "internal/database/orders.go",
			`"voucher_id = ? AND id < ?"`, `"voucher_id > -? AND id < ?"`, database},
		{"what is reserved does not say when a unit may return", "internal/database/vouchers.go",
			"if v.Stock > 0 || !v.AsksForPayment()", "if true || !v.AsksForPayment()", database},
		{"an attempt of a process that lives counts as one that killed it", "internal/fulfil/heartbeat.go",
			"			alive = append(alive, attempt)", "			ended++", fulfil},
		{"a node that hangs is asked again and again", "internal/fulfil/circuit_breaker.go",
			`if timedOut && node != "" {`, "if false {", fulfil},
		{"only the first page of a dead process' entries is claimed", "internal/fulfil/pending.go",
			"if next == claimStart {", "if true {", fulfil},
		{"a malformed copy of a persisted order returns its unit to the stock", "internal/fulfil/reject.go",
			"returnStock = false // this is", "returnStock = true // this is", fulfil},
		{"a client that waits for its order is forgotten with the connection", "internal/fulfil/notifier.go",
			"			for w := range c.waiters {\n				wake(w.query)\n			}\n		}\n	}\n}", "		}\n	}\n}", fulfil},
		{"a worker takes entries of an epoch that is over", "internal/database/admission_store.go",
			"WHERE id = ? AND stock >= ? AND admission_epoch BETWEEN ? AND ? AND adm", "WHERE id = ? AND stock >= ? AND admission_epoch BETWEEN ? AND ? + 1000 AND adm", database},
		{"an order of an epoch that nobody ever had is persisted", "internal/fulfil/persist.go",
			"!known || e.order.Epoch <= epoch {", "!known || e.order.Epoch <= epoch+1000 {", fulfil},
		{"an order of an epoch that the database has lost is rejected", "internal/fulfil/persist.go",
			"if errors.Is(err, order.ErrFutureEpoch) {", "if false {", fulfil},
		{"workers do not ask whether the stores belong together", "internal/fulfil/worker.go",
			"if _, err := w.config.Generation(); err != nil {", "if false {", fulfil},
		{"a worker of an earlier pair writes", "internal/database/admission_store.go",
			"AND admission_generation <= ?`", "AND admission_generation <= ? + 1000`", database},
		{"a duplicate key is taken for an outage", "internal/database/failure.go", "	1062: duplicate, // ER_DUP_ENTRY\n", "", database},
		{"a paid order expires", "internal/database/lifecycle.go",
			`WHERE id IN (" + marks + ") AND voucher_id = ? AND status = ?"`, `WHERE id IN (" + marks + ") AND voucher_id = ? AND status <> '' AND ? <> ''"`, database},
		{"a collision is repeated without bound", "internal/database/retry.go",
			"if !collided || n == d.maxAttempts() || tooLate {", "if !collided || n == 1<<20 || tooLate && n < 0 {", database},
		{"a migration that is alive is taken for dead", "internal/database/migrate_galera.go",
			"seenOwner, seenBeat, reads = owner, beat, 0", "seenOwner, seenBeat = owner, beat", database},
		{"a write with an old fencing token is accepted", "internal/database/tx.go",
			"AND fence_token <= ?`", "AND fence_token < ? + 1000`", database},
		{"a version that has changed is accepted", "internal/database/tx.go",
			"AND version = ? AND stock > 0`", "AND version >= ? AND stock > 0`", database},
		{"several orders of one entry take too few units", "internal/database/admission_store.go",
			"args: []any{s.orders, s.orders, s.seq,", "args: []any{max(1, s.orders-1), s.orders, s.seq,", database},
		{"a stock that cannot be read counts as balanced", "internal/reconcile/reading.go", "case most < 0:", "case false:", reconcile},
		{"a lock wait that ran out is repeated in the same transaction", "internal/database/transact.go",
			"	t.ended = true\n	if t.conn == nil {\n		return\n	}\n	if err", "	t.ended = true\n	if t.collided != nil {\n		_ = t.conn.Close()\n		return\n	}\n	if t.conn == nil {\n		return\n	}\n	if err", database},
		{"what another transaction wrote is acted on before it is on the disk", "internal/database/durable.go", "if !d.batches {", "if true {", database},
	}
}

// onShards lists faults of what the service knows of Vitess.
func onShards() []mutant {
	const database = "./internal/database"
	return []mutant{
		{"on Vitess another shard's log is flushed", "internal/database/vitess.go", "if !d.vitess() {", "if true {", database},
		{"the money of an order is in another shard than the order", "deploy/vitess/vschema.json",
			`"payments": {"column_vindexes": [{"column": "voucher_id"`, `"payments": {"column_vindexes": [{"column": "order_id"`, database},
		{"a stock that Vitess does not have is not refused there", "internal/database/vitess.go",
			"case p.Stock == voucher.StockUnits:", "case p.Stock == \"\":", database},
		{"the Vitess of Compose is not recognized as one", "docker-compose.yml", "8.4.6-Vitess", "8.4.6", "./internal/deploy"},
	}
}
