package flawed

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"seckill/internal/order"
	"seckill/internal/payment"
	"seckill/internal/voucher"
)

// Orders are programs that move orders through their states with a mistake, in the tables of the project. The
// statements of each method are one transaction.
type Orders struct{ db *sql.DB }

// OpenOrders returns the programs on a database.
func OpenOrders(db *sql.DB) Orders { return Orders{db} }

// statement is a statement with its arguments.
type statement struct {
	query string
	args  []any
}

func (o Orders) run(ctx context.Context, statements ...statement) error {
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("flawed: %w", err)
	}
	for _, s := range statements {
		if _, err := tx.ExecContext(ctx, s.query, s.args...); err != nil {
			return fmt.Errorf("flawed: %w", errors.Join(err, tx.Rollback()))
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("flawed: %w", err)
	}
	return nil
}

// giveBack is what follows for the stock when an order gives its unit back.
func giveBack(order int64) statement {
	return statement{"UPDATE vouchers SET stock = stock + 1, version = version + 1 WHERE id = (SELECT voucher_id FROM orders WHERE id = ?)", []any{order}}
}

// settle notes that nothing is to be paid for an order any more.
func settle(order int64) statement {
	return statement{"UPDATE order_payments SET unpaid = FALSE WHERE order_id = ?", []any{order}}
}

// Cancel is [StateNotAsked]: it cancels an order and gives its unit back, whatever the order's state is by now.
func (o Orders) Cancel(ctx context.Context, order int64) error {
	return o.run(ctx,
		statement{"UPDATE orders SET status = 'cancelled', unique_user_id = NULL WHERE id = ?", []any{order}}, // and no AND status = 'unpaid'
		settle(order), giveBack(order))
}

// Paid is [EventNotRecorded]: it pays an unpaid order, and reports whether the money is to be refunded because the
// order is not unpaid. It does not know whether it has seen this payment before.
func (o Orders) Paid(ctx context.Context, p payment.Payment) (refund bool, err error) {
	var status order.Status
	if err := o.db.QueryRowContext(ctx, "SELECT status FROM orders WHERE id = ?", p.Reference).Scan(&status); err != nil {
		return false, fmt.Errorf("flawed: %w", err)
	}
	if status != order.Unpaid {
		return true, nil
	}
	return false, o.run(ctx, statement{"UPDATE orders SET status = 'paid' WHERE id = ? AND status = 'unpaid'", []any{p.Reference}})
}

// Event is [LatestEventWins]: a payment that was paid pays the order, and one that was refunded gives the unit back.
func (o Orders) Event(ctx context.Context, kind string, orderID int64) error {
	switch kind {
	case payment.EventPaid:
		return o.run(ctx, statement{"UPDATE orders SET status = 'paid', unique_user_id = user_id WHERE id = ?", []any{orderID}}, settle(orderID))
	case payment.EventRefunded:
		return o.run(ctx,
			statement{"UPDATE orders SET status = 'refunded', unique_user_id = NULL WHERE id = ?", []any{orderID}},
			settle(orderID), giveBack(orderID))
	}
	return nil
}

// Expire is what the listener of [KeyMessage] does, with no mistake: it expires the order if it is unpaid. A second
// message about it changes nothing.
func (o Orders) Expire(ctx context.Context, order int64) error {
	return o.run(ctx,
		statement{`UPDATE vouchers v JOIN orders o ON o.voucher_id = v.id SET v.stock = v.stock + 1, v.version = v.version + 1
			WHERE o.id = ? AND o.status = 'unpaid'`, []any{order}},
		statement{"UPDATE orders SET status = 'expired', unique_user_id = NULL WHERE id = ? AND status = 'unpaid'", []any{order}},
		settle(order))
}

// PaidLate is [StockNotAsked]: it has an order paid that was cancelled, and takes no unit for it.
func (o Orders) PaidLate(ctx context.Context, orderID int64) error {
	return o.run(ctx,
		statement{"UPDATE orders SET status = 'paid', unique_user_id = user_id WHERE id = ?", []any{orderID}}, settle(orderID))
}

// Left counts what is left of a voucher: its initial stock less its orders.
func (o Orders) Left(ctx context.Context, id int64) (n int, err error) {
	err = o.db.QueryRowContext(ctx, `SELECT initial_stock - (SELECT COUNT(*) FROM orders WHERE voucher_id = vouchers.id)
		FROM vouchers WHERE id = ?`, id).Scan(&n)
	return n, wrapped(err)
}

// Append is [CountThenInsert] after it has counted: it inserts orders.
func (o Orders) Append(ctx context.Context, orders ...order.Order) error {
	var all []statement
	for _, one := range orders {
		all = append(all, insertOf(one))
	}
	return o.run(ctx, all...)
}

// TakeUnlocked is [LockedIsSold]: it takes a unit of which the row is not locked, for an order. If it finds none it returns
// [voucher.ErrSoldOut].
func (o Orders) TakeUnlocked(ctx context.Context, one order.Order) error {
	return o.takePart(ctx, one, "SELECT part FROM stock_parts WHERE voucher_id = ? AND stock > 0 ORDER BY part LIMIT 1 FOR UPDATE SKIP LOCKED", one.VoucherID)
}

// TakeFromCounter is [OwnCounter]: it takes a unit from one of the counters, for an order. If that one is empty it returns
// [voucher.ErrSoldOut].
func (o Orders) TakeFromCounter(ctx context.Context, one order.Order, counter int64) error {
	return o.takePart(ctx, one, "SELECT part FROM stock_parts WHERE voucher_id = ? AND part = ? AND stock > 0", one.VoucherID, counter)
}

// WriteStock is [StockWritten] after it has read: it sets the stock and the initial stock of a voucher.
func (o Orders) WriteStock(ctx context.Context, id, stock, initial int64) error {
	return o.run(ctx, statement{"UPDATE vouchers SET stock = ?, initial_stock = ? WHERE id = ?", []any{stock, initial, id}})
}

// takePart takes a unit from the part of the stock that a query finds.
func (o Orders) takePart(ctx context.Context, one order.Order, query string, args ...any) (err error) {
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return wrapped(err)
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback() // the first error counts
		}
	}()
	var part int64
	if err := tx.QueryRowContext(ctx, query, args...).Scan(&part); errors.Is(err, sql.ErrNoRows) {
		return voucher.ErrSoldOut
	} else if err != nil {
		return wrapped(err)
	}
	taken, err := tx.ExecContext(ctx, "UPDATE stock_parts SET stock = stock - 1 WHERE voucher_id = ? AND part = ? AND stock > 0", one.VoucherID, part)
	if err != nil {
		return wrapped(err)
	}
	if n, err := taken.RowsAffected(); err != nil || n == 0 {
		return cmp.Or(wrapped(err), voucher.ErrSoldOut)
	}
	insert := insertOf(one)
	if _, err := tx.ExecContext(ctx, insert.query, insert.args...); err != nil {
		return wrapped(err)
	}
	return wrapped(tx.Commit())
}

// PlaceTogether is [OneForAll]: it takes a unit for each order of a group and inserts the orders, all of them or none.
func (o Orders) PlaceTogether(ctx context.Context, group []order.Order) (err error) {
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return wrapped(err)
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback() // the first error counts
		}
	}()
	n := len(group)
	taken, err := tx.ExecContext(ctx, "UPDATE vouchers SET stock = stock - ?, version = version + ? WHERE id = ? AND stock >= ?", n, n, group[0].VoucherID, n)
	if err != nil {
		return wrapped(err)
	}
	if found, err := taken.RowsAffected(); err != nil || found == 0 {
		return cmp.Or(wrapped(err), voucher.ErrSoldOut)
	}
	for _, one := range group {
		insert := insertOf(one)
		if _, err := tx.ExecContext(ctx, insert.query, insert.args...); err != nil {
			return wrapped(err)
		}
	}
	return wrapped(tx.Commit())
}

// insertOf inserts a confirmed order.
func insertOf(one order.Order) statement {
	return statement{"INSERT INTO orders (id, voucher_id, user_id, unique_user_id, status, created_at) VALUES (?, ?, ?, ?, 'confirmed', ?)",
		[]any{one.ID, one.VoucherID, one.UserID, one.UserID, time.Now().UTC()}}
}

// Accept writes an order that a gate in Redis has accepted. The gate has looked at the stock, so nobody asks here how
// many rows the second statement has found.
func (o Orders) Accept(ctx context.Context, one order.Order) error {
	now := time.Now().UTC()
	return o.run(ctx,
		statement{"INSERT INTO orders (id, voucher_id, user_id, unique_user_id, status, created_at) VALUES (?, ?, ?, ?, 'unpaid', ?)",
			[]any{one.ID, one.VoucherID, one.UserID, one.UserID, now}},
		statement{"UPDATE vouchers SET stock = stock - 1, version = version + 1 WHERE id = ? AND stock > 0", []any{one.VoucherID}},
		statement{"INSERT INTO order_payments (order_id, voucher_id, bucket, amount_cents, pay_by, unpaid, unpaid_at) VALUES (?, ?, 0, ?, ?, TRUE, ?)",
			[]any{one.ID, one.VoucherID, one.AmountCents, one.PayBy.UTC(), now}})
}
