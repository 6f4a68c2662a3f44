package database

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"gorm.io/gorm"

	"seckill/internal/order"
	"seckill/internal/voucher"
)

// Orders is the [order.Store]; see transact.go for its transactions.
type Orders struct{ db *DB }

var _ order.Store = (*Orders)(nil)

// orderRow is a row of the table orders. [tx.Insert] writes it.
type orderRow struct {
	ID, VoucherID, UserID int64
	Status                string
	CreatedAt             time.Time
	KeyHash               *int64 // NULL without an idempotency key
	UniqueUserID          *int64 // NULL: the order does not keep its user from ordering again
}

// TableName implements gorm's Tabler.
func (orderRow) TableName() string { return "orders" }

func (r orderRow) order() order.Order {
	return order.Order{
		ID: r.ID, VoucherID: r.VoucherID, UserID: r.UserID,
		Status: order.Status(r.Status), CreatedAt: r.CreatedAt.UTC(), Key: r.key(),
	}
}

func (r orderRow) key() order.KeyHash {
	if r.KeyHash == nil {
		return 0
	}
	return order.KeyHash(*r.KeyHash)
}

// nullableKey is the value of the column key_hash.
func nullableKey(key order.KeyHash) any {
	if key == 0 {
		return nil
	}
	return int64(key)
}

// Order implements [order.Store].
func (o *Orders) Order(ctx context.Context, id int64) (order.Order, error) {
	return o.take(ctx, "id = ?", id)
}

// DurableOrder implements [order.Store].
func (o *Orders) DurableOrder(ctx context.Context, id int64) (order.Order, error) {
	found, err := o.Order(ctx, id)
	if err != nil {
		return order.Order{}, err
	}
	if err := o.db.flushCommits(ctx, o.db.writers, found.VoucherID); err != nil {
		return order.Order{}, err
	}
	return found, nil
}

// Ordered implements [order.Store].
func (o *Orders) Ordered(ctx context.Context, voucherID, userID int64) (bool, error) {
	return (&tx{db: o.db}).Ordered(ctx, voucherID, userID) // no transaction: one statement
}

// OrderUnderKey implements [order.Store]. It reads the index that makes the user's order unique.
func (o *Orders) OrderUnderKey(ctx context.Context, voucherID, userID int64, key order.KeyHash) (order.Order, error) {
	return o.take(ctx, "voucher_id = ? AND unique_user_id = ? AND key_hash = ?", voucherID, userID, int64(key))
}

// take returns the one order that matches.
func (o *Orders) take(ctx context.Context, condition string, args ...any) (order.Order, error) {
	var row orderRow
	err := o.db.rows.WithContext(ctx).Where(condition, args...).Take(&row).Error
	switch {
	case errors.Is(err, gorm.ErrRecordNotFound):
		return order.Order{}, order.ErrNotFound
	case err != nil:
		return order.Order{}, translate(ctx, err)
	}
	return row.order(), nil
}

// OrdersOf implements [order.Store].
func (o *Orders) OrdersOf(ctx context.Context, userID, before int64, limit int) ([]order.Order, error) {
	return o.list(ctx, "user_id = ? AND id < ?", userID, before, limit)
}

// OrdersOfVoucher implements [order.Store].
func (o *Orders) OrdersOfVoucher(ctx context.Context, voucherID, before int64, limit int) ([]order.Order, error) {
	return o.list(ctx, "voucher_id = ? AND id < ?", voucherID, before, limit)
}

func (o *Orders) list(ctx context.Context, condition string, of, before int64, limit int) ([]order.Order, error) {
	var rows []orderRow
	err := o.db.rows.WithContext(ctx).Where(condition, of, before).Order("id DESC").Limit(limit).Find(&rows).Error
	if err != nil {
		return nil, translate(ctx, err)
	}
	orders := make([]order.Order, len(rows))
	for i, row := range rows {
		orders[i] = row.order()
	}
	return orders, nil
}

// Audit implements [order.Store]. It is one statement, which sees one state of both tables in every engine and at every
// isolation level. See [order.Status.Live] for the live orders; pending orders are counted separately.
func (o *Orders) Audit(ctx context.Context, voucherID int64) (order.Audit, error) {
	const query = `
		SELECT v.initial_stock, v.stock + ` + inParts + `,
		       COUNT(CASE WHEN o.status IN ('confirmed', 'unpaid', 'paid') THEN 1 END),
		       COUNT(DISTINCT CASE WHEN o.status IN ('confirmed', 'unpaid', 'paid') THEN o.user_id END),
		       COUNT(CASE WHEN o.status = 'pending' THEN 1 END), ` + returnedTotal + `
		FROM vouchers v LEFT JOIN orders o ON o.voucher_id = v.id
		WHERE v.id = ?
		GROUP BY v.id, v.initial_stock, v.stock, v.admission_epoch`
	var a order.Audit
	defer o.db.logSlow(ctx, query, time.Now())
	err := o.db.readers.QueryRowContext(ctx, query, voucherID).
		Scan(&a.InitialStock, &a.Stock, &a.Orders, &a.DistinctUsers, &a.Pending, &a.Returned)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return order.Audit{}, voucher.ErrNotFound
	case err != nil:
		return order.Audit{}, translate(ctx, err)
	}
	return a, nil
}

// Rejected counts the orders of a voucher that were accepted and then rejected.
func (o *Orders) Rejected(ctx context.Context, voucherID int64) (int64, error) {
	var n int64
	// The index on (voucher_id, unique_user_id) skips the users with a confirmed order.
	err := o.db.rows.WithContext(ctx).Model(&orderRow{}).
		Where("voucher_id = ? AND unique_user_id IS NULL AND status = ?", voucherID, string(order.Rejected)).
		Count(&n).Error
	if err != nil {
		return 0, translate(ctx, err)
	}
	return n, nil
}

// stamp returns a time as the database stores it: UTC, in whole microseconds.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
