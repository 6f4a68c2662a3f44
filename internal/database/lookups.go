package database

import (
	"context"
	"database/sql"
	"time"

	"seckill/internal/order"
)

// DueLookups lists up to limit payments that are to be looked up now, the longest due first.
func (l *Lifecycle) DueLookups(ctx context.Context, now time.Time, limit int) (due []order.Lookup, err error) {
	const query = "SELECT order_id, voucher_id, payment_id, pay_by, look_at FROM order_payments WHERE look_at <= ? ORDER BY look_at LIMIT ?"
	err = (&tx{db: l.db}).readAll(ctx, query, []any{stamp(now), limit}, func(rows *sql.Rows) error {
		var one order.Lookup
		err := rows.Scan(&one.OrderID, &one.VoucherID, &one.PaymentID, &one.PayBy, &one.Due)
		one.PayBy, one.Due = one.PayBy.UTC(), one.Due.UTC()
		due = append(due, one)
		return err
	})
	return due, err
}

// PostponeLookup makes a look-up due at another time; the zero time means never. It reports whether the look-up was
// still due at its earlier time: if several processes postpone it, only one of them gets true.
func (l *Lifecycle) PostponeLookup(ctx context.Context, one order.Lookup, until time.Time) (moved bool, err error) {
	at := sql.NullTime{Time: stamp(until), Valid: !until.IsZero()}
	err = l.db.apply(ctx, write{
		query: "UPDATE order_payments SET look_at = ? WHERE order_id = ? AND voucher_id = ? AND look_at = ?",
		args:  []any{at, one.OrderID, one.VoucherID, stamp(one.Due)},
		check: func(_ context.Context, found int64) error {
			moved = found == 1
			return nil
		},
	})
	return moved, err
}
