package database

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"seckill/internal/idempotency"
	"seckill/internal/order"
)

// Idempotency is the [idempotency.Store].
type Idempotency struct{ db *DB }

var _ idempotency.Store = (*Idempotency)(nil)

// keyRow is a row of the table idempotency_keys. The key is bytes, so that neither a collation nor an invalid character
// makes two keys equal.
type keyRow struct {
	UserID      int64  `gorm:"primaryKey;autoIncrement:false"`
	IdemKey     []byte `gorm:"primaryKey"`
	Fingerprint []byte
	ResourceID  int64
	Attempt     int
	StartedAt   time.Time
	Status      *int
	ContentType *string
	Location    *string
	Body        []byte
}

// TableName implements gorm's Tabler.
func (keyRow) TableName() string { return "idempotency_keys" }

// beginAttempts bounds how often Begin starts over because the record has changed meanwhile.
const beginAttempts = 20

// Begin implements [idempotency.Store]. Among concurrent reservations the primary key decides; among concurrent
// takeovers, a compare-and-set on the attempt counter.
func (s *Idempotency) Begin(ctx context.Context, key idempotency.Key, fp idempotency.Fingerprint,
	resourceID int64, now, staleBefore time.Time,
) (idempotency.Record, bool, error) {
	fresh := keyRow{
		UserID: key.UserID, IdemKey: []byte(key.Value), Fingerprint: fp[:],
		ResourceID: resourceID, Attempt: 1, StartedAt: stamp(now),
	}
	for n := 1; ; n++ {
		row, mine, err := s.begin(ctx, fresh, stamp(staleBefore))
		switch {
		case err == nil:
			record, err := row.record()
			return record, mine, err
		case !errors.Is(err, errChanged):
			return idempotency.Record{}, false, err
		case n == beginAttempts:
			return idempotency.Record{}, false, fmt.Errorf("%w: %w", order.ErrUnavailable, err)
		}
		if err := backoff(ctx, n); err != nil {
			return idempotency.Record{}, false, err
		}
	}
}

// errChanged says that the record was changed or deleted between a read and a write.
var errChanged = errors.New("database: record changed meanwhile")

func (s *Idempotency) begin(ctx context.Context, fresh keyRow, staleBefore time.Time) (keyRow, bool, error) {
	repeated, err := s.db.insertOnce(ctx, func() error { return s.db.single.WithContext(ctx).Create(&fresh).Error })
	if !errors.Is(err, errDuplicate) {
		return fresh, err == nil, err
	}

	row, err := s.find(ctx, idempotency.Key{UserID: fresh.UserID, Value: string(fresh.IdemKey)})
	switch {
	case err != nil:
		return row, false, err
	case repeated && row.ResourceID == fresh.ResourceID && row.Attempt == fresh.Attempt: // its own
		return row, row.Status == nil, nil
	}
	if row.Status != nil || !row.StartedAt.Before(staleBefore) || string(row.Fingerprint) != string(fresh.Fingerprint) {
		return row, false, nil
	}

	seen := row.Attempt
	row.Attempt, row.StartedAt = seen+1, fresh.StartedAt
	found, err := s.write(ctx, "UPDATE idempotency_keys SET attempt = ?, started_at = ?"+whereReserved,
		row.Attempt, row.StartedAt, row.UserID, row.IdemKey, row.ResourceID, seen)
	if err == nil && found == 0 {
		err = errChanged
	}
	return row, err == nil, err
}

// Find implements [idempotency.Store].
func (s *Idempotency) Find(ctx context.Context, key idempotency.Key) (idempotency.Record, bool, error) {
	row, err := s.find(ctx, key)
	switch {
	case errors.Is(err, errChanged):
		return idempotency.Record{}, false, nil
	case err != nil:
		return idempotency.Record{}, false, err
	}
	record, err := row.record()
	return record, err == nil, err
}

// find returns the row of a key, or errChanged if there is none.
func (s *Idempotency) find(ctx context.Context, key idempotency.Key) (keyRow, error) {
	var row keyRow
	err := s.db.rows.WithContext(ctx).Take(&row, "user_id = ? AND idem_key = ?", key.UserID, []byte(key.Value)).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return row, errChanged
	}
	return row, translate(ctx, err)
}

// whereReserved is the condition on the record of one attempt, as long as the attempt has neither been taken over nor
// answered.
const whereReserved = " WHERE user_id = ? AND idem_key = ? AND resource_id = ? AND attempt = ? AND status IS NULL"

// Complete implements [idempotency.Store]. A key that was swept meanwhile stays deleted.
func (s *Idempotency) Complete(ctx context.Context, key idempotency.Key, mine idempotency.Record, a idempotency.Answer) error {
	_, err := s.write(ctx, "UPDATE idempotency_keys SET status = ?, content_type = ?, location = ?, body = ?"+whereReserved,
		a.Status, a.ContentType, a.Location, a.Body, key.UserID, []byte(key.Value), mine.ResourceID, mine.Attempt)
	return err
}

// Cancel implements [idempotency.Store].
func (s *Idempotency) Cancel(ctx context.Context, key idempotency.Key, mine idempotency.Record) error {
	_, err := s.write(ctx, "DELETE FROM idempotency_keys"+whereReserved,
		key.UserID, []byte(key.Value), mine.ResourceID, mine.Attempt)
	return err
}

// Sweep deletes records whose attempt started before a time, the oldest ones first and at most limit of them, and
// returns their number.
func (s *Idempotency) Sweep(ctx context.Context, before time.Time, limit int) (int64, error) {
	return s.write(ctx, s.db.sweep, stamp(before), limit)
}

// write runs one statement, which commits by itself, and returns how many rows it found.
func (s *Idempotency) write(ctx context.Context, query string, args ...any) (found int64, err error) {
	err = s.db.retry(ctx, func() error {
		result := s.db.single.WithContext(ctx).Exec(query, args...)
		found = result.RowsAffected
		return translateWrite(ctx, result.Error)
	})
	return found, err
}

func (r *keyRow) record() (idempotency.Record, error) {
	record := idempotency.Record{ResourceID: r.ResourceID, Attempt: r.Attempt, StartedAt: r.StartedAt.UTC()}
	if copy(record.Fingerprint[:], r.Fingerprint) != len(record.Fingerprint) {
		return record, fmt.Errorf("database: fingerprint of %d bytes", len(r.Fingerprint))
	}
	if r.Status != nil {
		record.Answer = &idempotency.Answer{Status: *r.Status, Body: r.Body}
		if r.ContentType != nil {
			record.Answer.ContentType = *r.ContentType
		}
		if r.Location != nil {
			record.Answer.Location = *r.Location
		}
	}
	return record, nil
}
