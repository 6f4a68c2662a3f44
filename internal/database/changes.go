package database

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"seckill/internal/voucher"
)

// ChangeVoucher implements [voucher.Changer]. The row is locked from the read on, so no order comes in between: an
// order's transaction finds the new revision, or has committed before.
func (s *Vouchers) ChangeVoucher(ctx context.Context, id, drained int64, change voucher.Change, now time.Time) (*voucher.Voucher, error) {
	var changed voucher.Voucher
	err := s.db.transact(ctx, func(ctx context.Context, t *tx) error {
		row, parts, v, err := t.lockVoucher(ctx, id)
		if err != nil {
			return err
		}
		var fields []voucher.FieldChange
		changed, fields, err = change.Apply(*v, now)
		if err != nil || len(fields) == 0 {
			return err
		}
		if change.AddStock < 0 && !row.drainedBy(drained) {
			return voucher.ErrNotDrained
		}
		policy, err := json.Marshal(changed.Policy)
		if err != nil {
			return fmt.Errorf("database: policy of voucher %d: %w", id, err)
		}
		written := 0 // of the stock
		if change.AddStock != 0 {
			written = 1
		}
		own := row.Stock + max(change.AddStock, -row.Stock) // the rest is taken away from the parts
		if err := t.enqueue(write{
			query: `UPDATE vouchers SET title = ?, begin_at = ?, end_at = ?, paused = ?, policy = ?, revision = ?, stock = ?, initial_stock = ?, version = version + ?
				WHERE id = ?`,
			args: []any{changed.Title, stamp(changed.BeginAt), stamp(changed.EndAt), changed.Paused, string(policy), changed.Revision, own, changed.InitialStock, written, id},
		}); err != nil {
			return err
		}
		if err := t.changeParts(&changed, parts, max(0, own-row.Stock-change.AddStock)); err != nil {
			return err
		}
		if change.AddStock > 0 {
			if err := t.refill(ctx, row, change.AddStock); err != nil {
				return err
			}
		}
		return t.record(voucher.Record{VoucherID: id, Revision: changed.Revision, At: now, By: change.By, Fields: fields})
	})
	if err != nil {
		return nil, err
	}
	return &changed, nil
}

// DeleteVoucher implements [voucher.Changer].
func (s *Vouchers) DeleteVoucher(ctx context.Context, id, drained int64, change voucher.Change, now time.Time) error {
	return s.db.transact(ctx, func(ctx context.Context, t *tx) error {
		row, _, v, err := t.lockVoucher(ctx, id)
		if err != nil {
			return err
		}
		if _, _, err := change.Apply(*v, now); err != nil { // its revision
			return err
		}
		var one int
		switch err := t.read(ctx, "SELECT 1 FROM orders WHERE voucher_id = ? LIMIT 1", []any{id}, &one); {
		case err == nil:
			return voucher.ErrHasOrders
		case !errors.Is(err, sql.ErrNoRows):
			return err
		case !row.drainedBy(drained):
			return voucher.ErrNotDrained
		}
		for _, query := range []string{
			"DELETE FROM rooms WHERE voucher_id = ?",
			"DELETE FROM admission_seqs WHERE voucher_id = ?", "DELETE FROM admission_returns WHERE voucher_id = ?",
			"DELETE FROM returned_orders WHERE voucher_id = ?", "DELETE FROM stock_parts WHERE voucher_id = ?", "DELETE FROM vouchers WHERE id = ?",
		} {
			if err := t.enqueue(write{query: query, args: []any{id}}); err != nil {
				return err
			}
		}
		gone := voucher.FieldChange{Field: "deleted", From: false, To: true}
		return t.record(voucher.Record{VoucherID: id, Revision: v.Revision + 1, At: now, By: change.By, Fields: []voucher.FieldChange{gone}})
	})
}

// lockVoucher reads a voucher with its parts, and keeps its row locked.
func (t *tx) lockVoucher(ctx context.Context, id int64) (row voucherRow, parts []partRow, v *voucher.Voucher, err error) {
	row.ID = id
	if err := t.begin(ctx); err != nil {
		return row, nil, nil, err
	}
	query := `SELECT title, price_cents, value_cents, initial_stock, stock, version, revision, paused, begin_at, end_at, pay_within_s,
		policy, created_at, admission_epoch FROM vouchers WHERE id = ?`
	if t.db.batches { // SQLite locks the file
		query += " FOR UPDATE"
	}
	err = t.readVoucher(ctx, query, id, &row.Title, &row.PriceCents, &row.ValueCents, &row.InitialStock, &row.Stock, &row.Version, &row.Revision,
		&row.Paused, &row.BeginAt, &row.EndAt, &row.PayWithinS, &row.Policy, &row.CreatedAt, &row.AdmissionEpoch)
	if err == nil {
		v, err = row.voucher()
	}
	if err == nil {
		parts, err = t.lockParts(ctx, v)
	}
	if err != nil {
		return row, nil, nil, err
	}
	for _, p := range parts {
		v.Stock += p.Stock
	}
	return row, parts, v, nil
}

// drainedBy reports whether no order of the voucher can be pending: the voucher is not sold by admission, or is still
// closed under the epoch under which none was pending.
func (r *voucherRow) drainedBy(closed int64) bool {
	return r.AdmissionEpoch == 0 || r.AdmissionEpoch == closed && closed%2 == 1
}

// refill counts units that are added to a voucher under the admission flow as units that were given back to its first
// bucket: one total tells Redis of both. While the voucher is closed Redis need not be told.
func (t *tx) refill(ctx context.Context, row voucherRow, n int64) error {
	if row.AdmissionEpoch == 0 || row.AdmissionEpoch%2 == 1 {
		return nil
	}
	var epoch, total int64
	err := t.read(ctx, "SELECT epoch, total FROM admission_returns WHERE voucher_id = ? AND bucket = 0", []any{row.ID}, &epoch, &total)
	if errors.Is(err, sql.ErrNoRows) {
		return t.enqueue(write{
			query: "INSERT INTO admission_returns (voucher_id, bucket, epoch, total) VALUES (?, 0, ?, ?)",
			args:  []any{row.ID, row.AdmissionEpoch, n},
		})
	}
	if err != nil {
		return err
	}
	if epoch != row.AdmissionEpoch {
		total = 0
	}
	return t.enqueue(write{
		query: "UPDATE admission_returns SET epoch = ?, total = ? WHERE voucher_id = ? AND bucket = 0",
		args:  []any{row.AdmissionEpoch, total + n, row.ID},
	})
}

// record writes that a voucher was changed.
func (t *tx) record(r voucher.Record) error {
	fields, err := json.Marshal(r.Fields)
	if err != nil {
		return fmt.Errorf("database: changes of voucher %d: %w", r.VoucherID, err)
	}
	return t.enqueue(write{
		query: "INSERT INTO voucher_changes (voucher_id, revision, changed_at, author, address, request_id, fields) VALUES (?, ?, ?, ?, ?, ?, ?)",
		args:  []any{r.VoucherID, r.Revision, stamp(r.At), r.By.Name, r.By.Address, r.By.RequestID, string(fields)},
	})
}

// Changes implements [voucher.Changer].
func (s *Vouchers) Changes(ctx context.Context, id, before int64, limit int) (records []voucher.Record, err error) {
	const query = `SELECT revision, changed_at, author, address, request_id, fields FROM voucher_changes
		WHERE voucher_id = ? AND revision < ? ORDER BY revision DESC LIMIT ?`
	err = (&tx{db: s.db}).readAll(ctx, query, []any{id, before, limit}, func(rows *sql.Rows) error {
		r := voucher.Record{VoucherID: id}
		var fields string
		if err := rows.Scan(&r.Revision, &r.At, &r.By.Name, &r.By.Address, &r.By.RequestID, &fields); err != nil {
			return err
		}
		r.At = r.At.UTC()
		records = append(records, r)
		return json.Unmarshal([]byte(fields), &records[len(records)-1].Fields)
	})
	return records, err
}
