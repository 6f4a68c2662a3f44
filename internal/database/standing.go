package database

import (
	"context"
	"fmt"

	"seckill/internal/order"
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
	const query = "SELECT admission_epoch, admission_seq, stock FROM vouchers WHERE id = ? AND admission_epoch > 0"
	s.Seq = make([]int64, 1)
	err = t.readVoucher(ctx, query, voucherID, &s.Epoch, &s.Seq[0], &s.Stock)
	return s, err
}
