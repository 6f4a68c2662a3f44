package database

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"seckill/internal/voucher"
)

// Vouchers is the [voucher.Store].
type Vouchers struct{ db *DB }

var _ voucher.Store = (*Vouchers)(nil)

// voucherRow is a row of the table vouchers. The columns fence_token, last_writer, admission_seq and
// admission_forgotten are missing: only transactions use them.
type voucherRow struct {
	ID                     int64 `gorm:"primaryKey;autoIncrement:false"`
	Title                  string
	PriceCents, ValueCents int64
	InitialStock, Stock    int64
	InParts                int64 `gorm:"->"` // see parts.go; [Vouchers.all] selects it
	Version, Revision      int64
	Paused                 bool
	BeginAt, EndAt         time.Time
	PayWithinS             int64
	Policy                 string
	CreatedAt              time.Time `gorm:"autoCreateTime:false"`
	AdmissionEpoch         int64     // see contract.EpochState
	// AdmissionCleared says that Redis has no data of the voucher.
	AdmissionCleared bool
}

// TableName implements gorm's Tabler.
func (voucherRow) TableName() string { return "vouchers" }

// CreateVoucher implements [voucher.Store]. It stores times in microseconds.
func (s *Vouchers) CreateVoucher(ctx context.Context, v *voucher.Voucher) error {
	policy, err := json.Marshal(v.Policy)
	if err != nil {
		return fmt.Errorf("database: policy of voucher %d: %w", v.ID, err)
	}
	row := voucherRow{
		ID: v.ID, Title: v.Title, PriceCents: v.PriceCents, ValueCents: v.ValueCents,
		InitialStock: v.InitialStock, Stock: v.Stock, Version: v.Version, Revision: max(1, v.Revision), Paused: v.Paused,
		BeginAt: stamp(v.BeginAt), EndAt: stamp(v.EndAt), PayWithinS: int64(v.PayWithin / time.Second),
		Policy: string(policy), CreatedAt: stamp(v.CreatedAt),
		AdmissionCleared: true, // under another flow Redis never has any
	}
	parts := partsOf(v)
	if len(parts) > 0 {
		row.Stock = 0
	}
	var returns []returnRow
	var split []seqRow // of every bucket but the first, whose number is in the voucher's row
	if v.Policy.Flow == voucher.FlowAdmission {
		row.AdmissionEpoch, row.AdmissionCleared = firstEpoch, false
		for bucket := 1; bucket < v.Policy.BucketCount(); bucket++ {
			split = append(split, seqRow{VoucherID: v.ID, Bucket: bucket})
		}
		if v.AsksForPayment() {
			for bucket := range v.Policy.BucketCount() {
				returns = append(returns, returnRow{VoucherID: v.ID, Bucket: bucket})
			}
		}
	}
	repeated, err := s.db.insertOnce(ctx, func() error { return create(s.db.single.WithContext(ctx), &row, parts, split, returns) })
	if repeated && errors.Is(err, errDuplicate) {
		_, found := s.Voucher(ctx, v.ID) // its own: the id is new
		return found
	}
	return err
}

// create writes a voucher, its parts and its buckets, in one transaction.
func create(db *gorm.DB, row *voucherRow, parts []partRow, split []seqRow, returns []returnRow) error {
	if len(parts) == 0 && len(split) == 0 && len(returns) == 0 {
		return db.Create(row).Error
	}
	return db.Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(row).Error; err != nil {
			return err
		}
		if len(parts) > 0 {
			if err := tx.CreateInBatches(parts, MaxBatch).Error; err != nil {
				return err
			}
		}
		if len(split) > 0 {
			if err := tx.Create(split).Error; err != nil {
				return err
			}
		}
		if len(returns) > 0 {
			return tx.Create(returns).Error
		}
		return nil
	})
}

// returnRow counts the units that the orders of a bucket have given back; see contract.EpochState.
type returnRow struct {
	VoucherID    int64 `gorm:"primaryKey;autoIncrement:false"`
	Bucket       int   `gorm:"primaryKey;autoIncrement:false"`
	Epoch, Total int64
}

// TableName implements gorm's Tabler.
func (returnRow) TableName() string { return "admission_returns" }

// seqRow is the sequence number of a bucket other than the first; see contract.EpochState.
type seqRow struct {
	VoucherID int64 `gorm:"primaryKey;autoIncrement:false"`
	Bucket    int   `gorm:"primaryKey;autoIncrement:false"`
	Seq       int64
}

// TableName implements gorm's Tabler.
func (seqRow) TableName() string { return "admission_seqs" }

// Voucher implements [voucher.Store].
func (s *Vouchers) Voucher(ctx context.Context, id int64) (*voucher.Voucher, error) {
	var row voucherRow
	err := s.all(ctx).Take(&row, "id = ?", id).Error
	switch {
	case errors.Is(err, gorm.ErrRecordNotFound):
		return nil, voucher.ErrNotFound
	case err != nil:
		return nil, translate(ctx, err)
	}
	v, err := row.voucher()
	if err != nil {
		return nil, err
	}
	return v, s.setReturnsAt(ctx, v)
}

// setReturnsAt reads when the first unpaid order of a voucher is due, if the voucher waits for that. It reads the
// unpaid orders, the first due one first, until it finds one of the voucher: mostly the first one is.
func (s *Vouchers) setReturnsAt(ctx context.Context, v *voucher.Voucher) error {
	if v.Stock > 0 || !v.AsksForPayment() || !time.Now().Before(v.EndAt) {
		return nil
	}
	const query = "SELECT pay_by FROM order_payments WHERE unpaid = TRUE AND voucher_id = ? ORDER BY pay_by LIMIT 1"
	err := s.db.readers.QueryRowContext(ctx, query, v.ID).Scan(&v.ReturnsAt)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	v.ReturnsAt = v.ReturnsAt.UTC()
	return translate(ctx, err)
}

// all returns the vouchers, each with the stock of its parts.
func (s *Vouchers) all(ctx context.Context) *gorm.DB { return withParts(s.db.rows.WithContext(ctx)) }

func withParts(db *gorm.DB) *gorm.DB {
	return db.Table("vouchers v").Select("v.*, " + inParts + " AS in_parts")
}

// DurableVoucher implements [voucher.Store].
func (s *Vouchers) DurableVoucher(ctx context.Context, id int64) (*voucher.Voucher, error) {
	v, err := s.Voucher(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := s.db.flushCommits(ctx, s.db.writers, id); err != nil {
		return nil, err
	}
	return v, nil
}

// VouchersByID implements [voucher.Store].
func (s *Vouchers) VouchersByID(ctx context.Context, ids []int64) (map[int64]voucher.Found, error) {
	var rows []voucherRow
	if err := s.all(ctx).Find(&rows, "id IN ?", ids).Error; err != nil {
		return nil, translate(ctx, err)
	}
	found := make(map[int64]voucher.Found, len(rows))
	for _, row := range rows {
		v, err := row.voucher()
		if err == nil {
			if err := s.setReturnsAt(ctx, v); err != nil {
				return nil, err
			}
		}
		found[row.ID] = voucher.Found{Voucher: v, Err: err}
	}
	return found, nil
}

// Sales counts the vouchers that have stock and whose sale has not ended at the given time, by how they are sold.
func (s *Vouchers) Sales(ctx context.Context, now time.Time) ([]voucher.Sale, error) {
	var rows []struct {
		Flow, Mechanism string
		Vouchers        int
	}
	// The first condition is always true: the index begins with its column. MySQL extracts strings in quotes, SQLite
	// without.
	err := s.db.rows.WithContext(ctx).Raw(`SELECT JSON_EXTRACT(policy, '$.flow') AS flow, JSON_EXTRACT(policy, '$.lock') AS mechanism,
		COUNT(*) AS vouchers FROM vouchers v WHERE admission_cleared IN (TRUE, FALSE) AND end_at > ?
		AND (stock > 0 OR EXISTS (SELECT 1 FROM stock_parts s WHERE s.voucher_id = v.id AND s.stock > 0))
		GROUP BY flow, mechanism ORDER BY flow, mechanism`, stamp(now)).Scan(&rows).Error
	if err != nil {
		return nil, translate(ctx, err)
	}
	sales := make([]voucher.Sale, len(rows))
	for i, row := range rows {
		sales[i] = voucher.Sale{Flow: voucher.Flow(strings.Trim(row.Flow, `"`)), Lock: strings.Trim(row.Mechanism, `"`), Vouchers: row.Vouchers}
	}
	return sales, nil
}

func (r *voucherRow) voucher() (*voucher.Voucher, error) {
	policy := voucher.DefaultPolicy() // the default of a field that a later version added
	if err := json.Unmarshal([]byte(r.Policy), &policy); err != nil {
		return nil, fmt.Errorf("database: policy of voucher %d: %w", r.ID, err)
	}
	return &voucher.Voucher{
		ID: r.ID, Title: r.Title, PriceCents: r.PriceCents, ValueCents: r.ValueCents,
		Stock: r.Stock + r.InParts, InitialStock: r.InitialStock, Version: r.Version, Revision: r.Revision, Paused: r.Paused,
		BeginAt: r.BeginAt.UTC(), EndAt: r.EndAt.UTC(), PayWithin: time.Duration(r.PayWithinS) * time.Second,
		Policy: policy, CreatedAt: r.CreatedAt.UTC(),
	}, nil
}
