package database

import (
	"context"
	"database/sql"
	"fmt"

	"seckill/internal/order"
	"seckill/internal/voucher"
)

// firstEpoch is that of a voucher under the flow admission from its creation on:
// closed, and never opened.
const firstEpoch = 1

// drainedBy is the last epoch in which an order of an earlier one is persisted: its
// own, and the closed one after it.
func drainedBy(epoch int64) int64 { return epoch | 1 }

// Standing implements [order.Shelf].
func (s *Shelf) Standing(ctx context.Context, voucherID int64) (order.Standing, error) {
	return (&tx{db: s.db}).standing(ctx, voucherID) // no transaction: one statement
}

// Close implements [order.Shelf].
func (s *Shelf) Close(ctx context.Context, voucherID int64) (order.Standing, error) {
	return s.turn(ctx, voucherID, write{
		query: "UPDATE vouchers SET admission_epoch = admission_epoch + 1 WHERE id = ? AND admission_epoch > 0 AND admission_epoch % 2 = 0",
		args:  []any{voucherID},
	})
}

// Open implements [order.Shelf]. The update locks the row, so no batch takes from the
// stock between the two statements; and whoever comes after them finds the new epoch.
func (s *Shelf) Open(ctx context.Context, voucherID, closed int64) (order.Standing, error) {
	return s.turn(ctx, voucherID, write{
		query: "UPDATE vouchers SET admission_epoch = admission_epoch + 1 WHERE id = ? AND admission_epoch = ? AND admission_epoch % 2 = 1",
		args:  []any{voucherID, closed},
		check: func(_ context.Context, found int64) error {
			if found == 1 {
				return nil
			}
			return fmt.Errorf("%w: voucher %d is not closed under epoch %d", order.ErrConflict, voucherID, closed)
		},
	})
}

// turn changes a voucher's epoch and says how it stands then.
func (s *Shelf) turn(ctx context.Context, voucherID int64, change write) (now order.Standing, err error) {
	err = s.db.transact(ctx, func(ctx context.Context, t *tx) error {
		if err := t.put(change); err != nil {
			return err
		}
		now, err = t.standing(ctx, voucherID)
		return err
	})
	if err != nil {
		return order.Standing{}, err
	}
	return now, nil
}

func (t *tx) standing(ctx context.Context, voucherID int64) (s order.Standing, err error) {
	// One statement, so that all of it is of one moment. The first bucket's sequence is
	// in the voucher's row, so that one that is not split is read as it always was.
	const query = `
		SELECT v.admission_epoch, v.stock, v.admission_seq, s.seq
		FROM vouchers v LEFT JOIN admission_seqs s ON s.voucher_id = v.id
		WHERE v.id = ? AND v.admission_epoch > 0
		ORDER BY s.bucket`
	err = t.readAll(ctx, query, []any{voucherID}, func(rows *sql.Rows) error {
		var first int64
		var other *int64
		if err := rows.Scan(&s.Epoch, &s.Stock, &first, &other); err != nil {
			return err
		}
		if s.Seq == nil {
			s.Seq = []int64{first}
		}
		if other != nil {
			s.Seq = append(s.Seq, *other)
		}
		return nil
	})
	if err == nil && s.Seq == nil {
		err = voucher.ErrNotFound
	}
	return s, err
}
