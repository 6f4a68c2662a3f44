package database

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// firstEpoch is the epoch of a new voucher under the admission flow: it is odd, so the voucher is closed.
const firstEpoch = 1

// drainedBy is the last epoch in which an order of the given epoch is still persisted: the closed epoch
// that follows it.
func drainedBy(epoch int64) int64 { return epoch | 1 }

// EpochState implements [contract.AdmissionStore].
func (s *AdmissionStore) EpochState(ctx context.Context, voucherID int64) (contract.EpochState, error) {
	return (&tx{db: s.db}).epochState(ctx, voucherID) // no transaction: one statement
}

// Close implements [contract.AdmissionStore].
func (s *AdmissionStore) Close(ctx context.Context, voucherID int64) (contract.EpochState, error) {
	return s.changeEpoch(ctx, voucherID, write{
		query: `UPDATE vouchers SET admission_cleared = FALSE, admission_generation = ?,
			admission_epoch = admission_epoch + CASE WHEN admission_epoch = admission_forgotten THEN 2 ELSE 1 END
			WHERE id = ? AND admission_epoch > 0 AND (admission_epoch % 2 = 0 OR admission_epoch = admission_forgotten)`,
		args: []any{voucherID},
	})
}

// CloseAbove implements [contract.AdmissionStore].
func (s *AdmissionStore) CloseAbove(ctx context.Context, voucherID, epoch int64) (contract.EpochState, error) {
	return s.changeEpoch(ctx, voucherID, write{
		query: "UPDATE vouchers SET admission_cleared = FALSE, admission_generation = ?, admission_epoch = ? WHERE id = ? AND admission_epoch BETWEEN ? AND ?",
		args:  []any{(epoch + 1) | 1, voucherID, firstEpoch, epoch - 1},
	})
}

// Open implements [contract.AdmissionStore]. The update locks the row, so no batch takes from the stock
// between the two statements, and a later batch finds the new epoch.
func (s *AdmissionStore) Open(ctx context.Context, voucherID, closed int64) (contract.EpochState, error) {
	return s.changeEpoch(ctx, voucherID, write{
		query: "UPDATE vouchers SET admission_generation = ?, admission_epoch = admission_epoch + 1 WHERE id = ? AND admission_epoch = ? AND admission_epoch % 2 = 1",
		args:  []any{voucherID, closed},
		check: oneRow(func(_ context.Context) error {
			return fmt.Errorf("%w: voucher %d is not closed under epoch %d", order.ErrConflict, voucherID, closed)
		}),
	})
}

// Forget implements [contract.AdmissionStore].
func (s *AdmissionStore) Forget(ctx context.Context, voucherID, closed int64, endedBy time.Time) error {
	return s.updateClosed(ctx, voucherID, closed, write{
		query: `UPDATE vouchers SET admission_forgotten = admission_epoch
			WHERE id = ? AND admission_epoch = ? AND admission_epoch % 2 = 1 AND end_at <= ?`,
		args: []any{voucherID, closed, stamp(endedBy)},
	})
}

// Cleared implements [contract.AdmissionStore].
func (s *AdmissionStore) Cleared(ctx context.Context, voucherID, forgotten int64) error {
	return s.updateClosed(ctx, voucherID, forgotten, write{
		query: "UPDATE vouchers SET admission_cleared = TRUE WHERE id = ? AND admission_epoch = ? AND admission_epoch = admission_forgotten",
		args:  []any{voucherID, forgotten},
	})
}

// updateClosed makes a change that is possible under one closed epoch only.
func (s *AdmissionStore) updateClosed(ctx context.Context, voucherID, closed int64, change write) error {
	change.check = oneRow(func(_ context.Context) error {
		return fmt.Errorf("%w: voucher %d is not closed under epoch %d, or its sale is not over", order.ErrConflict, voucherID, closed)
	})
	return s.apply(ctx, change)
}

// changeEpoch changes a voucher's epoch and returns the state after that. The first parameter of the statement is the
// generation of the pair, which changeEpoch puts before the arguments. A voucher of a later generation is not changed.
func (s *AdmissionStore) changeEpoch(ctx context.Context, voucherID int64, change write) (now contract.EpochState, err error) {
	generation, err := s.pair()
	if err != nil {
		return contract.EpochState{}, err
	}
	known := generation
	if known == maxGeneration {
		known = 0
	}
	change.query += " AND admission_generation <= ?"
	change.args = slices.Concat([]any{known}, change.args, []any{generation})
	err = s.transact(ctx, func(ctx context.Context, t *tx) error {
		if err := t.enqueue(change); err != nil {
			return err
		}
		now, err = t.epochState(ctx, voucherID)
		if err == nil && now.Generation > generation {
			err = anotherGeneration(voucherID, now.Generation, generation)
		}
		return err
	})
	if err != nil {
		return contract.EpochState{}, err
	}
	return now, nil
}

// epochStateQuery is one statement, so that everything is read at the same moment. The voucher's row holds the sequence
// number of the first bucket. A voucher that is not split has no other bucket.
var epochStateQuery = `
	SELECT v.admission_epoch, v.admission_epoch = v.admission_forgotten, v.stock, v.begin_at, v.end_at, v.paused, v.revision, v.admission_generation, v.admission_seq, s.seq, ` +
	returnedTotal + ", " + firstTotal + ", " + arrivedIn("0") + ", " + arrivedIn("s.bucket") + `
	FROM vouchers v LEFT JOIN admission_seqs s ON s.voucher_id = v.id
	WHERE v.id = ? AND v.admission_epoch > 0
	ORDER BY s.bucket`

// epochState reads the state of a voucher that is sold by admission.
func (t *tx) epochState(ctx context.Context, voucherID int64) (s contract.EpochState, err error) {
	err = t.readAll(ctx, epochStateQuery, []any{voucherID}, func(rows *sql.Rows) error {
		var first, arrivedInFirst, arrived int64
		var other *int64
		if err := rows.Scan(&s.Epoch, &s.Forgotten, &s.Stock, &s.BeginAt, &s.EndAt, &s.Paused, &s.Revision, &s.Generation, &first, &other, &s.Returned, &s.ReturnedToFirst, &arrivedInFirst, &arrived); err != nil {
			return err
		}
		if s.Seq == nil {
			s.Seq, s.Arrived = []int64{first}, map[int]int64{0: arrivedInFirst}
		}
		if other != nil {
			s.Arrived[len(s.Seq)] = arrived
			s.Seq = append(s.Seq, *other)
		}
		return nil
	})
	if err == nil && s.Seq == nil {
		err = voucher.ErrNotFound
	}
	maps.DeleteFunc(s.Arrived, func(_ int, n int64) bool { return n == 0 })
	return s, err
}
