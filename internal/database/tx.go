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
	"seckill/internal/voucher"
)

// Ordered implements [order.Tx]. Only a live order counts.
func (t *tx) Ordered(ctx context.Context, voucherID, userID int64) (bool, error) {
	const query = "SELECT 1 FROM orders WHERE voucher_id = ? AND user_id = ? AND status IN ('confirmed', 'unpaid', 'paid') LIMIT 1"
	var one int
	err := t.read(ctx, query, []any{voucherID, userID}, &one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// StockOf implements [order.Tx]. It returns [voucher.ErrNotFound] if there is no such voucher.
func (t *tx) StockOf(ctx context.Context, voucherID int64) (stock, version int64, err error) {
	const query = "SELECT stock, version FROM vouchers WHERE id = ?"
	err = t.readVoucher(ctx, query, voucherID, &stock, &version)
	return stock, version, err
}

// AtRevision implements [order.Tx].
func (t *tx) AtRevision(revision int64) { t.revision = revision }

// expected compares a column with the parameter [tx.revision].
func (t *tx) expected() string {
	if t.revision == 0 {
		return "> ?"
	}
	return "= ?"
}

// checkRevision returns [voucher.ErrChanged] if a decrement found no row because the voucher has another revision, and
// [voucher.ErrNotFound] if there is none.
func (t *tx) checkRevision(ctx context.Context, voucherID int64) error {
	var revision int64
	err := t.readVoucher(ctx, "SELECT revision FROM vouchers WHERE id = ?", voucherID, &revision)
	if err == nil && t.revision != 0 && revision != t.revision {
		return fmt.Errorf("%w: from revision %d to %d", voucher.ErrChanged, t.revision, revision)
	}
	return err
}

// Decrement implements [order.Tx].
func (t *tx) Decrement(_ context.Context, voucherID int64) error {
	return t.enqueue(write{
		query: "UPDATE vouchers SET stock = stock - 1, version = version + 1, last_writer = ? WHERE id = ? AND revision " + t.expected() + " AND stock > 0",
		args:  []any{t.number, voucherID, t.revision},
		check: oneRow(func(ctx context.Context) error {
			return cmp.Or(t.checkRevision(ctx, voucherID), voucher.ErrSoldOut)
		}),
	})
}

// SetStock implements [order.Tx]. The database itself refuses a stock below 0, with
// [voucher.ErrSoldOut].
func (t *tx) SetStock(_ context.Context, voucherID, stock int64) error {
	return t.enqueue(write{
		query: "UPDATE vouchers SET stock = ?, version = version + 1, last_writer = ? WHERE id = ? AND revision " + t.expected(),
		args:  []any{stock, t.number, voucherID, t.revision},
		check: oneRow(func(ctx context.Context) error {
			return cmp.Or(t.checkRevision(ctx, voucherID), voucher.ErrNotFound)
		}),
	})
}

// DecrementVersion implements [order.Tx].
func (t *tx) DecrementVersion(_ context.Context, voucherID, version int64) error {
	return t.enqueue(write{
		query: `UPDATE vouchers SET stock = stock - 1, version = version + 1, last_writer = ?
			WHERE id = ? AND revision ` + t.expected() + ` AND version = ? AND stock > 0`,
		args: []any{t.number, voucherID, t.revision, version},
		check: oneRow(func(ctx context.Context) error {
			if err := t.checkRevision(ctx, voucherID); err != nil {
				return err
			}
			switch stock, _, err := t.StockOf(ctx, voucherID); {
			case err != nil:
				return err
			case stock == 0:
				return voucher.ErrSoldOut
			}
			return order.ErrConflict
		}),
	})
}

// DecrementFenced implements [order.Tx]. If the token is out of date and no stock is left either, it returns
// [order.ErrStale].
func (t *tx) DecrementFenced(_ context.Context, voucherID int64, token uint64) error {
	return t.enqueue(write{
		query: `UPDATE vouchers SET stock = stock - 1, version = version + 1, last_writer = ?, fence_token = ?
			WHERE id = ? AND revision ` + t.expected() + ` AND stock > 0 AND fence_token <= ?`,
		args: []any{t.number, token, voucherID, t.revision, token},
		check: oneRow(func(ctx context.Context) error {
			if err := t.checkRevision(ctx, voucherID); err != nil {
				return err
			}
			var newest uint64
			err := t.readVoucher(ctx, "SELECT fence_token FROM vouchers WHERE id = ?", voucherID, &newest)
			switch {
			case err != nil:
				return err
			case newest > token:
				return fmt.Errorf("%w: token %d, newest seen %d", order.ErrStale, token, newest)
			}
			return voucher.ErrSoldOut
		}),
	})
}

// Insert implements [order.Tx]. A duplicate order id is an [order.ErrAlreadyOrdered] too. A rejected
// order has no unique user id.
func (t *tx) Insert(_ context.Context, o order.Order, unique bool) error {
	const columns = "INSERT INTO orders (id, voucher_id, user_id, unique_user_id, status, created_at)"
	var uniqueUser any // NULL does not collide in a unique index
	if unique && o.Status != order.Rejected {
		uniqueUser = o.UserID
	}
	args := []any{o.ID, o.VoucherID, o.UserID, uniqueUser, string(o.Status), stamp(o.CreatedAt)}
	if err := t.enqueue(t.insertOne(o.VoucherID, columns, "(?, ?, ?, ?, ?, ?)", args)); err != nil || o.Status != order.Unpaid {
		return err
	}
	return t.enqueue(t.insertOne(o.VoucherID, "INSERT "+paymentColumns, t.db.paymentRow(), t.db.paymentArgs(heldOrder{Order: o})))
}

// insertOne inserts the row of one order. Its dependent form inserts the row only if this transaction has taken a unit.
func (t *tx) insertOne(voucherID int64, columns, row string, args []any) write {
	took := t.took
	if took.row == "" {
		took = origin{"vouchers WHERE id = ?", []any{voucherID}}
	}
	return write{
		query: columns + " VALUES " + row, args: args,
		dependent:     columns + " SELECT " + strings.Trim(row, "()") + " FROM " + took.row + " AND last_writer = ?",
		dependentArgs: slices.Concat(args, took.args, []any{t.number}),
	}
}

// newPayments records what is to be paid for orders, and until when.
func (d *DB) newPayments(orders []heldOrder) write {
	args := make([]any, 0, 6*len(orders))
	for _, o := range orders {
		args = append(args, d.paymentArgs(o)...)
	}
	return write{query: "INSERT " + paymentColumns + " VALUES " + rowsOf(len(orders), d.paymentRow()), args: args}
}

const paymentColumns = "INTO order_payments (order_id, voucher_id, bucket, amount_cents, pay_by, unpaid_at, unpaid)"

// paymentRow is a row of the columns. [Lifecycle.due] asks the database's clock whether the time to pay is over, so the
// time left counts from that clock: the clock of the process may be wrong. SQLite runs in this process.
func (d *DB) paymentRow() string {
	if d.batches {
		return "(?, ?, ?, ?, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, ?, TRUE)"
	}
	return "(?, ?, ?, ?, ?, ?, TRUE)"
}

func (d *DB) paymentArgs(o heldOrder) []any {
	var payBy any = stamp(o.PayBy)
	if d.batches {
		payBy = time.Until(o.PayBy).Microseconds()
	}
	return []any{o.ID, o.VoucherID, o.bucket, o.AmountCents, payBy, stamp(o.CreatedAt)}
}

func (t *tx) readVoucher(ctx context.Context, query string, voucherID int64, dest ...any) error {
	err := t.read(ctx, query, []any{voucherID}, dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return voucher.ErrNotFound
	}
	return err
}
