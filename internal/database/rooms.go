package database

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"

	"seckill/internal/room"
	"seckill/internal/voucher"
)

// Rooms is the [room.Store].
type Rooms struct{ db *DB }

var _ room.Store = (*Rooms)(nil)

// Rooms returns the store of waiting rooms.
func (d *DB) Rooms() *Rooms { return &Rooms{d} }

// Room implements [room.Store]. If two processes create the row at once, the primary key lets one succeed.
func (s *Rooms) Room(ctx context.Context, voucherID int64) (room.Record, error) {
	r, err := s.find(ctx, voucherID)
	if !errors.Is(err, sql.ErrNoRows) {
		return r, err
	}
	secret := make([]byte, room.SecretSize)
	_, _ = rand.Read(secret) // it never fails
	const columns = "INTO rooms (voucher_id, secret) SELECT id, ? FROM vouchers WHERE id = ?"
	if err := s.write(ctx, s.db.insertIgnore+columns, secret, voucherID); err != nil {
		return r, err
	}
	if r, err = s.find(ctx, voucherID); errors.Is(err, sql.ErrNoRows) {
		return r, voucher.ErrNotFound
	}
	return r, err
}

func (s *Rooms) find(ctx context.Context, voucherID int64) (room.Record, error) {
	r := room.Record{Drawn: room.NotDrawn}
	var drawn sql.NullInt64
	const query = "SELECT secret, drawn, reserved, serving FROM rooms WHERE voucher_id = ?"
	if err := (&tx{db: s.db}).read(ctx, query, []any{voucherID}, &r.Secret, &drawn, &r.Reserved, &r.Serving); err != nil {
		return r, err
	}
	if drawn.Valid {
		r.Drawn = drawn.Int64
	}
	if len(r.Secret) != room.SecretSize {
		return r, fmt.Errorf("database: the secret of room %d has %d bytes", voucherID, len(r.Secret))
	}
	return r, nil
}

// Reserve implements [room.Store].
func (s *Rooms) Reserve(ctx context.Context, voucherID, upTo int64) error {
	return s.write(ctx, "UPDATE rooms SET reserved = ? WHERE voucher_id = ? AND reserved < ?", upTo, voucherID, upTo)
}

// Draw implements [room.Store].
func (s *Rooms) Draw(ctx context.Context, voucherID, tickets int64) (int64, error) {
	if err := s.write(ctx, "UPDATE rooms SET drawn = ? WHERE voucher_id = ? AND drawn IS NULL", tickets, voucherID); err != nil {
		return 0, err
	}
	r, err := s.find(ctx, voucherID)
	if errors.Is(err, sql.ErrNoRows) {
		err = voucher.ErrNotFound
	}
	return r.Drawn, err
}

// Serve implements [room.Store].
func (s *Rooms) Serve(ctx context.Context, voucherID, serving int64) error {
	return s.write(ctx, "UPDATE rooms SET serving = ? WHERE voucher_id = ? AND serving < ?", serving, voucherID, serving)
}

// write runs one statement, which commits by itself.
func (s *Rooms) write(ctx context.Context, query string, args ...any) error {
	return s.db.retry(ctx, func() error {
		return translateWrite(ctx, s.db.single.WithContext(ctx).Exec(query, args...).Error)
	})
}
