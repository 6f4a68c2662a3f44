package database

import (
	"context"
	"errors"
	"fmt"

	"seckill/internal/order"
	"seckill/internal/pairing"
)

// Pairs is the database's side of the pair that it makes with Redis.
type Pairs struct{ db *DB }

var _ pairing.Database = (*Pairs)(nil)

// Pairs returns the store of the pair.
func (d *DB) Pairs() *Pairs { return &Pairs{d} }

// Pair implements [pairing.Database].
func (s *Pairs) Pair(ctx context.Context) (r pairing.Record, err error) {
	const query = "SELECT generation, mark, next_mark, redis, clean FROM pairing WHERE id = 1"
	err = (&tx{db: s.db}).read(ctx, query, nil, &r.Generation, &r.Mark, &r.Next, &r.Partner, &r.Clean)
	return r, err
}

// ProposeMark implements [pairing.Database].
func (s *Pairs) ProposeMark(ctx context.Context, of pairing.Record, next string) error {
	return s.db.apply(ctx, write{
		query: "UPDATE pairing SET next_mark = ? WHERE id = 1 AND generation = ? AND mark = ? AND next_mark = ''",
		args:  []any{next, of.Generation, of.Mark},
	})
}

// SettleMark implements [pairing.Database].
func (s *Pairs) SettleMark(ctx context.Context, next, partner string) error {
	return s.db.apply(ctx, write{
		query: "UPDATE pairing SET mark = ?, next_mark = '', redis = ?, clean = FALSE WHERE id = 1 AND next_mark = ?",
		args:  []any{next, partner, next},
	})
}

// LeavePair implements [pairing.Database].
func (s *Pairs) LeavePair(ctx context.Context, of pairing.Record) error {
	return s.db.apply(ctx, write{
		query: "UPDATE pairing SET clean = TRUE WHERE id = 1 AND generation = ?", args: []any{of.Generation},
	})
}

// TakePair implements [pairing.Database]. The other store may hold keys of vouchers whose removal was recorded: it may
// have older data, or be this pair's own.
func (s *Pairs) TakePair(ctx context.Context, from, to pairing.Record) (taken bool, err error) {
	err = s.db.apply(ctx, write{
		query: `UPDATE pairing SET generation = ?, mark = ?, next_mark = '', redis = ?, clean = FALSE
			WHERE id = 1 AND generation = ? AND mark = ? AND next_mark = ?`,
		args: []any{to.Generation, to.Mark, to.Partner, from.Generation, from.Mark, from.Next},
		check: func(_ context.Context, found int64) error {
			if taken = found == 1; !taken {
				return errMoved
			}
			return nil
		},
	}, write{query: "UPDATE vouchers SET admission_cleared = FALSE WHERE admission_cleared"})
	if !taken && err != nil && errors.Is(err, errMoved) {
		return false, nil
	}
	return taken && err == nil, err
}

// WithPair returns a store that writes nothing while the database and Redis do not belong together. generation is that
// of the pair, see [pairing.Pairing.Generation]: a voucher that was closed or opened under a later generation belongs
// to another Redis now.
func (s *AdmissionStore) WithPair(generation func() (int64, error)) *AdmissionStore {
	return &AdmissionStore{db: s.db, generation: generation}
}

// pair returns the generation under which the store writes.
func (s *AdmissionStore) pair() (int64, error) {
	if s.generation == nil {
		return maxGeneration, nil
	}
	return s.generation()
}

// maxGeneration is the generation of a store that was opened without a pair.
const maxGeneration = 1 << 62

// anotherGeneration is the error of a change to a voucher that belongs to a later pair.
func anotherGeneration(voucherID, voucher, ours int64) error {
	return fmt.Errorf("%w: %w: voucher %d is sold by generation %d, and this process is of %d", order.ErrUnavailable, pairing.ErrUnpaired, voucherID, voucher, ours)
}
