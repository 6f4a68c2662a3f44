package database

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"seckill/internal/order"
)

// Lifecycle is the [order.LifecycleStore]. All its transactions lock the orders first and the vouchers last, as those
// of [AdmissionStore] do.
type Lifecycle struct{ db *DB }

var _ order.LifecycleStore = (*Lifecycle)(nil)

// Lifecycle returns the store that moves orders through their states.
func (d *DB) Lifecycle() *Lifecycle { return &Lifecycle{d} }

// heldOrder holds the columns of an order that never change, and its state as it was read.
type heldOrder struct {
	order.Order
	bucket int
}

// errMoved says that the state of an order has changed since it was read.
var errMoved = errors.New("database: the order has moved on")

// Cancel implements [order.LifecycleStore].
func (l *Lifecycle) Cancel(ctx context.Context, orderID int64) (order.Order, error) {
	return l.giveBack(ctx, orderID, order.Unpaid, order.Cancelled, order.ErrNotCancellable, nil)
}

// giveBack moves an order that has a unit to a state in which it has none. It returns an order unchanged that is in
// that state already, or in a later one.
func (l *Lifecycle) giveBack(ctx context.Context, id int64, from, to order.Status, refused error, also func(heldOrder) write) (order.Order, error) {
	for {
		o, err := l.read(ctx, id)
		switch {
		case err != nil:
			return order.Order{}, err
		case o.Status == to || to == order.Refunding && o.Status == order.Refunded:
			return o.Order, l.db.flushCommits(ctx, l.db.writers, o.VoucherID)
		case o.Status != from:
			return order.Order{}, &order.StateError{Err: refused, Status: o.Status}
		}
		err = l.db.transact(ctx, func(_ context.Context, t *tx) error {
			if err := t.move([]heldOrder{o}, from, to); err != nil || also == nil {
				return err
			}
			return t.enqueue(also(o))
		})
		if errors.Is(err, errMoved) {
			continue // its new state tells
		}
		if err != nil {
			return order.Order{}, err
		}
		o.Status = to
		return o.Order, nil
	}
}

// read returns an order with its bucket, or [order.ErrNotFound].
func (l *Lifecycle) read(ctx context.Context, id int64) (o heldOrder, err error) {
	const query = `SELECT o.voucher_id, o.user_id, o.status, o.created_at, COALESCE(p.bucket, 0)
		FROM orders o LEFT JOIN order_payments p ON p.order_id = o.id AND p.voucher_id = o.voucher_id WHERE o.id = ?`
	o.ID = id
	err = (&tx{db: l.db}).read(ctx, query, []any{id}, &o.VoucherID, &o.UserID, &o.Status, &o.CreatedAt, &o.bucket)
	if errors.Is(err, sql.ErrNoRows) {
		return o, order.ErrNotFound
	}
	o.CreatedAt = o.CreatedAt.UTC()
	return o, err
}

// move moves orders from one state to another, and changes the stock accordingly.
func (t *tx) move(orders []heldOrder, from, to order.Status) error {
	m, err := t.changeState(orders, from, to)
	if err != nil {
		return err
	}
	switch m.Stock() {
	case 1:
		return t.enqueue(returnStock(orders)...)
	case -1:
		return t.enqueue(t.takeStockAgain(orders[0]))
	}
	return nil
}

// changeState does what move does, without the stock. All orders are of one voucher. It is one conditional statement:
// if one of the orders is not in the first state any more, the error is errMoved, and the transaction changes nothing.
func (t *tx) changeState(orders []heldOrder, from, to order.Status) (order.Transition, error) {
	m, err := order.TransitionOf(from, to)
	if err != nil {
		return m, err
	}
	ids, marks, voucherID := idArgs(orders), placeholders(len(orders)), orders[0].VoucherID
	unique := "unique_user_id" // it stays
	switch m.Stock() {
	case 1:
		unique = "NULL" // the user may order again
	case -1:
		unique = "user_id"
	}
	moved := write{
		query: "UPDATE orders SET status = ?, unique_user_id = " + unique + " WHERE id IN (" + marks + ") AND voucher_id = ? AND status = ?",
		args:  slices.Concat([]any{string(to)}, ids, []any{voucherID, string(from)}),
		check: func(_ context.Context, found int64) error {
			if found != int64(len(orders)) {
				return fmt.Errorf("%w: %d of %d were %s", errMoved, found, len(orders), from)
			}
			return nil
		},
	}
	history := write{ // the columns are named after the states
		query: "UPDATE order_payments SET unpaid = FALSE, " + string(to) + "_at = ? WHERE order_id IN (" + marks + ") AND voucher_id = ?",
		args:  slices.Concat([]any{stamp(time.Now())}, ids, []any{voucherID}),
	}
	return m, t.enqueue(moved, history)
}

// ExpireDue implements [order.LifecycleStore]. The first query finds due orders by their index, and locks nothing. Each
// transaction then takes those of one voucher, and leaves out orders that another transaction has locked: another
// process expires them, or a buyer pays or cancels at this moment. If the transaction of a voucher fails, the orders of
// the other vouchers do not wait, however many due orders that voucher has. If the voucher's row is locked, they wait
// for Config.LockWait, once for each page of its orders.
func (l *Lifecycle) ExpireDue(ctx context.Context, limit int) (n int, failed error) {
	for left := 0; ; { // of the orders so far, those that are due still
		due, err := l.due(ctx, left, limit)
		if err != nil {
			return n, cmp.Or(failed, err)
		}
		expired, err := l.expireByVoucher(ctx, due)
		n, left, failed = n+expired, left+len(due)-expired, cmp.Or(failed, err)
		if err == nil || len(due) < limit || ctx.Err() != nil {
			return n, failed
		}
	}
}

// expireByVoucher expires due orders, one voucher after the other. It returns the error of the first voucher that
// fails.
func (l *Lifecycle) expireByVoucher(ctx context.Context, due []heldOrder) (n int, failed error) {
	for len(due) > 0 && ctx.Err() == nil {
		some := due
		if i := slices.IndexFunc(due, func(o heldOrder) bool { return o.VoucherID != due[0].VoucherID }); i > 0 {
			some = due[:i]
		}
		due = due[len(some):]
		expired, err := l.expire(ctx, some)
		if n += expired; err != nil {
			failed = cmp.Or(failed, fmt.Errorf("voucher %d: %w", some[0].VoucherID, err))
		}
	}
	return n, cmp.Or(failed, ctx.Err())
}

// due lists orders whose time to pay is over, by voucher and id, except for the first ones. The clock is the
// database's: the clocks of processes may differ, and a process whose clock is ahead must not expire an order that
// another process still lets the buyer pay.
func (l *Lifecycle) due(ctx context.Context, except, limit int) (due []heldOrder, err error) {
	now, args := "UTC_TIMESTAMP(6)", []any{limit, except}
	if !l.db.batches { // SQLite is in this process
		now, args = "?", []any{stamp(time.Now()), limit, except}
	}
	query := `SELECT o.id, o.voucher_id, p.bucket FROM orders o JOIN
		(SELECT order_id, voucher_id, bucket FROM order_payments WHERE unpaid = TRUE AND pay_by <= ` + now + ` ORDER BY pay_by LIMIT ? OFFSET ?) p
		ON o.id = p.order_id AND o.voucher_id = p.voucher_id WHERE o.status = 'unpaid' ORDER BY o.voucher_id, o.id`
	err = (&tx{db: l.db}).readAll(ctx, query, args, func(rows *sql.Rows) error {
		var o heldOrder
		err := rows.Scan(&o.ID, &o.VoucherID, &o.bucket)
		due = append(due, o)
		return err
	})
	return due, err
}

// expire takes some orders of one voucher, and expires those that are still unpaid and not locked.
func (l *Lifecycle) expire(ctx context.Context, due []heldOrder) (n int, err error) {
	err = l.db.transactOn(ctx, l.db.writers, l.db.waitsOnce(), func(ctx context.Context, t *tx) error {
		if err := t.begin(ctx); err != nil {
			return err
		}
		free, err := t.lockUnpaid(ctx, due)
		if n = len(free); err != nil || n == 0 {
			return err
		}
		return t.move(free, order.Unpaid, order.Expired)
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// lockUnpaid takes some orders of one voucher, and locks those that are unpaid and not locked already. On SQLite it
// locks nothing: there is one writer.
func (t *tx) lockUnpaid(ctx context.Context, some []heldOrder) (locked []heldOrder, err error) {
	query := "SELECT id FROM orders WHERE id IN (" + placeholders(len(some)) + ") AND voucher_id = ? AND status = 'unpaid' ORDER BY id"
	if t.db.batches {
		query += " FOR UPDATE SKIP LOCKED"
	}
	byID := make(map[int64]heldOrder, len(some))
	for _, o := range some {
		byID[o.ID] = o
	}
	err = t.readAll(ctx, query, append(idArgs(some), some[0].VoucherID), func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		locked = append(locked, byID[id])
		return err
	})
	return locked, err
}

// returnStock gives back the units of orders of one voucher in the database. Under the flow admission it also records
// what Redis is to be told: a total for each bucket, and the orders whose users may order again. Both carry the latest
// open epoch. The voucher's row is locked, so an epoch that is opened later begins with this stock. While the voucher
// is closed, only the total is written: Redis need not be told.
func returnStock(orders []heldOrder) []write {
	voucherID, n := orders[0].VoucherID, int64(len(orders))
	perBucket := make(map[int]int64)
	for _, o := range orders {
		perBucket[o.bucket]++
	}
	writes := []write{{
		query: "UPDATE vouchers SET stock = stock + ?, version = version + ? WHERE id = ?",
		args:  []any{n, n, voucherID},
	}}
	// The latest even epoch: what is given back while the voucher is closed is counted under the epoch before.
	const epoch = "(SELECT v.admission_epoch - v.admission_epoch % 2 FROM vouchers v WHERE v.id = ?)"
	for _, bucket := range sortedKeys(perBucket) {
		n := perBucket[bucket]
		writes = append(writes, write{ // MySQL assigns from left to right, so the total comes first
			query: "UPDATE admission_returns SET total = CASE WHEN epoch = " + epoch + " THEN total + ? ELSE ? END, epoch = " + epoch +
				" WHERE voucher_id = ? AND bucket = ?",
			args: []any{voucherID, n, n, voucherID, voucherID, bucket},
		})
	}
	return append(writes, write{
		query: `INSERT INTO returned_orders (order_id, voucher_id, user_id, bucket, epoch, key_hash)
			SELECT o.id, o.voucher_id, o.user_id, r.bucket, r.epoch, o.key_hash
			FROM orders o JOIN order_payments p ON p.order_id = o.id AND p.voucher_id = o.voucher_id
			JOIN admission_returns r ON r.voucher_id = o.voucher_id AND r.bucket = p.bucket
			JOIN vouchers v ON v.id = o.voucher_id AND v.admission_epoch = r.epoch
			WHERE o.voucher_id = ? AND o.id IN (` + placeholders(len(orders)) + `)`,
		args: slices.Concat([]any{voucherID}, idArgs(orders)),
	})
}

// StatesOf implements [order.LifecycleStore].
func (l *Lifecycle) StatesOf(ctx context.Context, orderIDs []int64) (map[int64]order.Status, error) {
	states := make(map[int64]order.Status, len(orderIDs))
	if len(orderIDs) == 0 {
		return states, nil
	}
	args := make([]any, len(orderIDs))
	for i, id := range orderIDs {
		args[i] = id
	}
	err := (&tx{db: l.db}).readAll(ctx, "SELECT id, status FROM orders WHERE id IN ("+placeholders(len(args))+")", args, func(rows *sql.Rows) error {
		var id int64
		var s order.Status
		err := rows.Scan(&id, &s)
		states[id] = s
		return err
	})
	return states, err
}

// Details implements [order.LifecycleStore].
func (l *Lifecycle) Details(ctx context.Context, o order.Order) (d order.Details, err error) {
	read := &tx{db: l.db} // no transaction: statements of their own
	states := []order.Status{order.Unpaid, order.Paid, order.Cancelled, order.Expired, order.Refunding, order.Refunded}
	times := make([]sql.NullTime, len(states))
	const query = `SELECT pay_by, amount_cents, unpaid_at, paid_at, cancelled_at, expired_at, refunding_at, refunded_at
		FROM order_payments WHERE order_id = ? AND voucher_id = ?`
	of := []any{o.ID, o.VoucherID}
	err = read.read(ctx, query, of, &d.PayBy, &d.AmountCents, &times[0], &times[1], &times[2], &times[3], &times[4], &times[5])
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return order.Details{}, order.ErrNotFound
	case err != nil:
		return order.Details{}, err
	}
	d.PayBy, d.PaidAt = d.PayBy.UTC(), utcOrZero(times[1])
	for i, at := range times {
		if at.Valid {
			d.History = append(d.History, order.HistoryEntry{Status: states[i], At: at.Time.UTC()})
		}
	}
	slices.SortStableFunc(d.History, func(a, b order.HistoryEntry) int { return a.At.Compare(b.At) })
	const payments = `SELECT payment_id, amount_cents, received_at, outcome, refund_due, refunded_at
		FROM payments WHERE order_id = ? AND voucher_id = ? ORDER BY received_at, payment_id`
	err = read.readAll(ctx, payments, of, func(rows *sql.Rows) error {
		var p order.PaymentRecord
		var refundedAt sql.NullTime
		err := rows.Scan(&p.PaymentID, &p.AmountCents, &p.ReceivedAt, &p.Outcome, &p.RefundDue, &refundedAt)
		p.ReceivedAt, p.RefundedAt = p.ReceivedAt.UTC(), utcOrZero(refundedAt)
		d.Payments = append(d.Payments, p)
		return err
	})
	return d, err
}

func utcOrZero(t sql.NullTime) time.Time {
	if !t.Valid {
		return time.Time{}
	}
	return t.Time.UTC()
}

func idArgs(orders []heldOrder) []any {
	ids := make([]any, len(orders))
	for i, o := range orders {
		ids[i] = o.ID
	}
	return ids
}

// placeholders returns n question marks, separated by commas.
func placeholders(n int) string { return rowsOf(n, "?") }

// rowsOf repeats a row of a statement, separated by commas.
func rowsOf(n int, row string) string { return strings.Repeat(row+", ", n-1) + row }
