package database

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"seckill/internal/order"
	"seckill/internal/voucher"
)

// Shelf is the [order.Shelf]: accepted orders, a batch in one transaction. What makes
// a repeated delivery harmless is the primary key of the orders; see standing.go for
// the epochs.
type Shelf struct{ db *DB }

var _ order.Shelf = (*Shelf)(nil)

// MaxBatch is how many orders [Shelf.Persist] takes at once. A statement must stay
// below the packet that a server takes and the parameters that SQLite counts.
const MaxBatch = 2000

// Persist implements [order.Shelf].
//
// The orders are inserted before the stock is taken: the voucher's row, which every
// other batch waits for, is then locked for one statement and the commit only. A
// batch that another process is writing at the same time meets it at the primary key.
func (s *Shelf) Persist(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
	if len(batch) > MaxBatch {
		return nil, fmt.Errorf("database: a batch of %d orders, at most %d", len(batch), MaxBatch)
	}
	for left := len(batch) + 1; ; {
		states, missing, err := s.look(ctx, batch)
		if err != nil || len(missing) == 0 {
			return states, err
		}
		if len(missing) == left {
			return nil, errTwoOrders // no id was the reason, so a user was
		}
		left = len(missing)
		err = s.db.transact(ctx, func(_ context.Context, t *tx) error { return t.shelve(missing) })
		switch {
		case errors.Is(err, errDuplicate):
			// An id may have come from another process meanwhile: look again.
		case err != nil:
			return nil, err
		default:
			for i := range states {
				states[i] = cmp.Or(states[i], order.Confirmed)
			}
			return states, nil
		}
	}
}

// errTwoOrders: a user of the batch has another order, or two of the batch.
var errTwoOrders = fmt.Errorf("%w: with another id", order.ErrAlreadyOrdered)

// Reject implements [order.Shelf]. A rejected order is in nobody's way: it takes
// nothing from the stock, and its user may have another one.
func (s *Shelf) Reject(ctx context.Context, a order.Accepted) (order.Status, error) {
	for {
		states, missing, err := s.look(ctx, []order.Accepted{a})
		if err != nil {
			return "", err
		}
		if len(missing) == 0 {
			return states[0], nil
		}
		err = s.db.transact(ctx, func(ctx context.Context, t *tx) error {
			return t.Insert(ctx, order.Order{
				ID: a.OrderID, VoucherID: a.VoucherID, UserID: a.UserID, Status: order.Rejected, CreatedAt: a.At,
			}, false)
		})
		// The id is all that can be there already: then somebody was faster.
		if !errors.Is(err, errDuplicate) {
			return order.Rejected, err
		}
		if err := ctx.Err(); err != nil {
			return "", err
		}
	}
}

// look says which orders are there, and which are missing, each once and by id; or
// [order.ErrIDTaken].
func (s *Shelf) look(ctx context.Context, batch []order.Accepted) (states []order.Status, missing []order.Accepted, err error) {
	if len(batch) == 0 {
		return nil, nil, nil
	}
	byID := make(map[int64]order.Accepted, len(batch))
	for _, a := range batch {
		if other, twice := byID[a.OrderID]; twice && !sameOrder(other, a.VoucherID, a.UserID) {
			return nil, nil, fmt.Errorf("%w: %d, twice in the batch", order.ErrIDTaken, a.OrderID)
		}
		byID[a.OrderID] = a
	}
	var rows []orderRow
	found := s.db.rows.WithContext(ctx).Where("id IN ?", slices.Collect(maps.Keys(byID))).Find(&rows)
	if found.Error != nil {
		return nil, nil, translate(ctx, found.Error)
	}
	there := make(map[int64]order.Status, len(rows))
	for _, row := range rows {
		if !sameOrder(byID[row.ID], row.VoucherID, row.UserID) {
			return nil, nil, fmt.Errorf("%w: %d", order.ErrIDTaken, row.ID)
		}
		there[row.ID] = order.Status(row.Status)
		delete(byID, row.ID)
	}
	states = make([]order.Status, len(batch))
	for i, a := range batch {
		states[i] = there[a.OrderID]
	}
	// In one order for all, so that two batches that share orders do not deadlock.
	missing = slices.SortedFunc(maps.Values(byID), func(a, b order.Accepted) int { return cmp.Compare(a.OrderID, b.OrderID) })
	return states, missing, nil
}

func sameOrder(a order.Accepted, voucherID, userID int64) bool {
	return a.VoucherID == voucherID && a.UserID == userID
}

// shelve inserts orders that were not there and takes them from the stock.
//
// All transactions lock in one order: orders by id, sequences by voucher and bucket, vouchers
// by id. The vouchers come last, since every other batch waits for those.
func (t *tx) shelve(orders []order.Accepted) error {
	const columns = "INSERT INTO orders (id, voucher_id, user_id, unique_user_id, status, created_at) VALUES "
	const row = "(?, ?, ?, ?, ?, ?)"
	args := make([]any, 0, 6*len(orders))
	taken := map[int64]*shelved{}
	for _, a := range orders {
		args = append(args, a.OrderID, a.VoucherID, a.UserID, a.UserID, string(order.Confirmed), stamp(a.At))
		s := taken[a.VoucherID]
		if s == nil {
			s = &shelved{voucher: a.VoucherID, epoch: a.Epoch}
			taken[a.VoucherID] = s
		}
		s.add(a)
	}
	if err := t.put(write{query: columns + strings.Repeat(row+", ", len(orders)-1) + row, args: args}); err != nil {
		return err
	}
	vouchers := slices.Sorted(maps.Keys(taken))
	for _, id := range vouchers {
		if err := t.raise(taken[id]); err != nil {
			return err
		}
	}
	for _, id := range vouchers {
		if err := t.take(taken[id]); err != nil {
			return err
		}
	}
	return nil
}

// shelved is what a batch takes from one voucher.
type shelved struct {
	voucher, orders int64
	epoch           int64         // the earliest of its orders'
	seq             int64         // the greatest of its orders', of the first bucket
	split           map[int]int64 // and of each other bucket
}

func (s *shelved) add(a order.Accepted) {
	s.orders++
	s.epoch = min(s.epoch, a.Epoch)
	if a.Bucket == 0 {
		s.seq = max(s.seq, a.Seq)
		return
	}
	if s.split == nil {
		s.split = make(map[int]int64)
	}
	s.split[a.Bucket] = max(s.split[a.Bucket], a.Seq)
}

// raise raises the sequences of all buckets but the first, which is raised together with
// the stock.
func (t *tx) raise(s *shelved) error {
	if len(s.split) == 0 {
		return nil
	}
	buckets := slices.Sorted(maps.Keys(s.split))
	cases := make([]any, 0, 3*len(buckets))
	which := make([]any, 0, len(buckets))
	for _, b := range buckets {
		cases = append(cases, b, s.split[b], s.split[b])
		which = append(which, b)
	}
	return t.put(write{
		query: "UPDATE admission_seqs SET seq = CASE" + strings.Repeat(" WHEN bucket = ? AND seq < ? THEN ?", len(buckets)) +
			" ELSE seq END WHERE voucher_id = ? AND bucket IN (?" + strings.Repeat(", ?", len(buckets)-1) + ")",
		args: slices.Concat(cases, []any{s.voucher}, which),
	})
}

func (t *tx) take(s *shelved) error {
	return t.put(write{
		query: `UPDATE vouchers SET stock = stock - ?, version = version + ?,
			admission_seq = CASE WHEN admission_seq < ? THEN ? ELSE admission_seq END
			WHERE id = ? AND stock >= ? AND admission_epoch BETWEEN ? AND ?`,
		args: []any{s.orders, s.orders, s.seq, s.seq, s.voucher, s.orders, firstEpoch, drainedBy(s.epoch)},
		check: func(ctx context.Context, found int64) error {
			if found == 1 {
				return nil
			}
			now, err := t.standing(ctx, s.voucher)
			switch {
			case err != nil:
				return err
			case now.Epoch > drainedBy(s.epoch):
				return fmt.Errorf("%w: %d, it is %d now", order.ErrStaleEpoch, s.epoch, now.Epoch)
			}
			return fmt.Errorf("%w: %d left of voucher %d, for %d orders", voucher.ErrSoldOut, now.Stock, s.voucher, s.orders)
		},
	})
}

// LiveOrders implements [order.Shelf].
func (s *Shelf) LiveOrders(ctx context.Context, voucherID, afterUser int64, limit int) ([]order.Order, error) {
	// The index on (voucher_id, unique_user_id) has all of it, the id too, and leaves
	// out what was rejected.
	var rows []orderRow
	err := s.db.rows.WithContext(ctx).Select("id, unique_user_id AS user_id").
		Where("voucher_id = ? AND unique_user_id > ?", voucherID, afterUser).
		Order("unique_user_id").Limit(limit).Find(&rows).Error
	if err != nil {
		return nil, translate(ctx, err)
	}
	orders := make([]order.Order, len(rows))
	for i, row := range rows {
		orders[i] = order.Order{ID: row.ID, VoucherID: voucherID, UserID: row.UserID, Status: order.Confirmed}
	}
	return orders, nil
}

// AdmissionSales implements [order.Shelf].
func (s *Shelf) AdmissionSales(ctx context.Context, endsAfter time.Time) ([]order.Sale, error) {
	var sales []order.Sale
	err := s.db.rows.WithContext(ctx).Table("vouchers v").
		Select("v.id AS voucher_id, 1 + COUNT(s.bucket) AS buckets").
		Joins("LEFT JOIN admission_seqs s ON s.voucher_id = v.id").
		Where("v.admission_epoch > 0 AND v.end_at > ?", stamp(endsAfter)).
		Group("v.id").Order("v.id").Scan(&sales).Error
	if err != nil {
		return nil, translate(ctx, err)
	}
	return sales, nil
}
