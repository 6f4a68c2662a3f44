package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"seckill/internal/order"
	"seckill/internal/voucher"
)

// Ordered implements [order.Tx]. A rejected order does not count.
func (t *tx) Ordered(ctx context.Context, voucherID, userID int64) (bool, error) {
	const query = "SELECT 1 FROM orders WHERE voucher_id = ? AND user_id = ? AND status <> 'rejected' LIMIT 1"
	var one int
	err := t.read(ctx, query, []any{voucherID, userID}, &one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// StockOf implements [order.Tx]. It returns [voucher.ErrNotFound] where there is
// no such voucher.
func (t *tx) StockOf(ctx context.Context, voucherID int64) (stock, version int64, err error) {
	const query = "SELECT stock, version FROM vouchers WHERE id = ?"
	err = t.readVoucher(ctx, query, voucherID, &stock, &version)
	return stock, version, err
}

// Decrement implements [order.Tx], or returns [voucher.ErrNotFound].
func (t *tx) Decrement(ctx context.Context, voucherID int64) error {
	const query = "UPDATE vouchers SET stock = stock - 1, version = version + 1 WHERE id = ? AND stock > 0"
	found, err := t.write(ctx, query, voucherID)
	if err != nil || found == 1 {
		return err
	}
	if _, _, err := t.StockOf(ctx, voucherID); err != nil {
		return err
	}
	return voucher.ErrSoldOut
}

// SetStock implements [order.Tx], or returns [voucher.ErrNotFound]. The database
// itself refuses a stock below 0: [voucher.ErrSoldOut].
func (t *tx) SetStock(ctx context.Context, voucherID, stock int64) error {
	const query = "UPDATE vouchers SET stock = ?, version = version + 1 WHERE id = ?"
	found, err := t.write(ctx, query, stock, voucherID)
	if err != nil || found == 1 {
		return err
	}
	return voucher.ErrNotFound
}

// DecrementVersion implements [order.Tx], or returns [voucher.ErrNotFound].
func (t *tx) DecrementVersion(ctx context.Context, voucherID, version int64) error {
	const query = `UPDATE vouchers SET stock = stock - 1, version = version + 1
		WHERE id = ? AND version = ? AND stock > 0`
	found, err := t.write(ctx, query, voucherID, version)
	if err != nil || found == 1 {
		return err
	}
	switch stock, _, err := t.StockOf(ctx, voucherID); {
	case err != nil:
		return err
	case stock == 0:
		return voucher.ErrSoldOut
	}
	return order.ErrConflict
}

// DecrementFenced implements [order.Tx], or returns [voucher.ErrNotFound]. That a
// token is out of date is said even where nothing is left.
func (t *tx) DecrementFenced(ctx context.Context, voucherID int64, token uint64) error {
	const query = `UPDATE vouchers SET stock = stock - 1, version = version + 1, fence_token = ?
		WHERE id = ? AND stock > 0 AND fence_token <= ?`
	found, err := t.write(ctx, query, token, voucherID, token)
	if err != nil || found == 1 {
		return err
	}
	var newest uint64
	err = t.readVoucher(ctx, "SELECT fence_token FROM vouchers WHERE id = ?", voucherID, &newest)
	switch {
	case err != nil:
		return err
	case newest > token:
		return fmt.Errorf("%w: token %d, newest seen %d", order.ErrStale, token, newest)
	}
	return voucher.ErrSoldOut
}

// Insert implements [order.Tx]. An order id that is there already is an
// [order.ErrAlreadyOrdered] too. A rejected order is never unique.
func (t *tx) Insert(ctx context.Context, o order.Order, unique bool) error {
	const query = `INSERT INTO orders (id, voucher_id, user_id, unique_user_id, status, created_at)
		VALUES (?, ?, ?, ?, ?, ?)`
	only := sql.NullInt64{Int64: o.UserID, Valid: unique && o.Status != order.Rejected}
	_, err := t.write(ctx, query, o.ID, o.VoucherID, o.UserID, only, string(o.Status), stamp(o.CreatedAt))
	if errors.Is(err, errDuplicate) {
		return fmt.Errorf("%w: %w", order.ErrAlreadyOrdered, err)
	}
	return err
}

func (t *tx) readVoucher(ctx context.Context, query string, voucherID int64, dest ...any) error {
	err := t.read(ctx, query, []any{voucherID}, dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return voucher.ErrNotFound
	}
	return err
}
