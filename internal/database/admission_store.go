package database

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// AdmissionStore is the [contract.AdmissionStore]. It writes a batch of accepted orders in one transaction.
// The primary key of the orders makes a repeated delivery harmless. See epoch_state.go for the epochs.
type AdmissionStore struct {
	db *DB
	// generation is that of the pair; nil where nothing was said of one. See [AdmissionStore.WithPair].
	generation func() (int64, error)
}

var _ contract.AdmissionStore = (*AdmissionStore)(nil)

// MaxBatch is the most orders that [AdmissionStore.Persist] accepts in one call. A statement must stay
// below the server's maximum packet size and SQLite's maximum number of parameters.
const MaxBatch = 2000

// Persist implements [contract.AdmissionStore].
//
// It inserts the orders before it takes the stock. So the voucher's row, which every other batch waits
// for, is locked for one statement and the commit only. If another process writes the same batch at the
// same time, the primary key lets one of them win. The other one finds the orders; see flushCommits.
func (s *AdmissionStore) Persist(ctx context.Context, batch []contract.Accepted) ([]order.Status, error) {
	if len(batch) > MaxBatch {
		return nil, fmt.Errorf("database: a batch of %d orders, at most %d", len(batch), MaxBatch)
	}
	generation, err := s.pair()
	if err != nil {
		return nil, err
	}
	for previouslyMissing := len(batch) + 1; ; {
		states, missing, err := s.findExisting(ctx, batch)
		if err != nil {
			return nil, err
		}
		late, err := s.lateOrders(ctx, batch, states)
		if err != nil {
			return nil, err
		}
		n := len(missing) + len(late)
		switch n {
		case 0:
			if err := s.flushCommits(ctx, vouchersOf(batch)...); err != nil {
				return nil, err
			}
			return states, nil
		case previouslyMissing:
			return nil, s.secondOrder(ctx, missing, late) // no order of the batch was written meanwhile
		}
		prices, err := s.db.prices.of(ctx, s.db, missing)
		if err != nil {
			return nil, err
		}
		err = s.transact(ctx, func(_ context.Context, t *tx) error { return t.persist(missing, late, prices, generation) })
		switch {
		case errors.Is(err, errDuplicate):
			previouslyMissing = n // another process may have written one of the orders meanwhile: query again
		case errors.Is(err, errMoved):
			// Another process has decided about late money meanwhile: query again. There may be more money of
			// the same order.
		case failureOf(err) == depleted:
			// The statement takes stock only if there is enough, so a number out of range comes from
			// the schema or a trigger. It must not be mistaken for a voucher that is sold out.
			return nil, fmt.Errorf("%w: %s", errMisfit, err.Error())
		case err != nil:
			return nil, err
		default:
			for i, a := range batch {
				if a.Late {
					states[i] = cmp.Or(states[i], order.Paid)
				}
				states[i] = cmp.Or(states[i], prices.status(a.VoucherID))
			}
			return states, nil
		}
	}
}

// errSecondOrder says that a user of the batch has another order, in the database or in the batch.
var errSecondOrder = fmt.Errorf("%w: with another id", order.ErrAlreadyOrdered)

// errNoSecondOrder says that a unique index refused a row although no user has another order: the index, or a trigger,
// does not belong to this program, and may refuse every order.
var errNoSecondOrder = fmt.Errorf("%w: %w: a duplicate row, although no user has a second order", order.ErrUnavailable, order.ErrRefused)

// secondOrder returns why a unique index refused some orders although none of them exists: a user has another order, or an
// order of another voucher has one of the ids.
func (s *AdmissionStore) secondOrder(ctx context.Context, missing []contract.Accepted, late []lateOrder) error {
	all := slices.Clone(missing)
	for _, o := range late {
		all = append(all, o.accepted)
	}
	users, ids := map[int64][]int64{}, make([]int64, len(all))
	for i, a := range all {
		if ids[i] = a.OrderID; slices.Contains(users[a.VoucherID], a.UserID) {
			return errSecondOrder
		}
		users[a.VoucherID] = append(users[a.VoucherID], a.UserID)
	}
	var there []orderRow
	if err := s.db.rows.WithContext(ctx).Where("id IN ?", ids).Find(&there).Error; err != nil {
		return translate(ctx, err)
	}
	for _, row := range there {
		if _, of := users[row.VoucherID]; !of {
			return fmt.Errorf("%w: %d", order.ErrIDTaken, row.ID)
		}
	}
	for voucherID, of := range users {
		var others int64
		err := s.db.rows.WithContext(ctx).Model(&orderRow{}).
			Where("voucher_id = ? AND unique_user_id IN ? AND id NOT IN ?", voucherID, of, ids).Count(&others).Error
		switch {
		case err != nil:
			return translate(ctx, err)
		case others > 0:
			return errSecondOrder
		}
	}
	return errNoSecondOrder
}

// Reject implements [contract.AdmissionStore]. A rejected order takes nothing from the stock, and its user
// may place another one.
func (s *AdmissionStore) Reject(ctx context.Context, a contract.Accepted) (order.Status, error) {
	if _, err := s.pair(); err != nil {
		return "", err
	}
	if a.Late {
		state, err := s.rejectLate(ctx, a)
		return s.durable(ctx, a.VoucherID, state, err)
	}
	for repeated := false; ; repeated = true {
		states, missing, err := s.findExisting(ctx, []contract.Accepted{a})
		if err != nil {
			return "", err
		}
		if len(missing) == 0 {
			return s.durable(ctx, a.VoucherID, states[0], nil)
		}
		err = s.transact(ctx, func(ctx context.Context, t *tx) error {
			return t.Insert(ctx, order.Order{
				ID: a.OrderID, VoucherID: a.VoucherID, UserID: a.UserID, Status: order.Rejected, CreatedAt: a.At,
			}, false)
		})
		switch {
		case !errors.Is(err, errDuplicate):
			return order.Rejected, err
		case repeated: // there is no such order of the voucher, so it was not another process that wrote it first
			return "", s.secondOrder(ctx, missing, nil)
		}
	}
}

// durable returns the state of an order that was read, as soon as no crash can undo that state.
func (s *AdmissionStore) durable(ctx context.Context, voucherID int64, state order.Status, err error) (order.Status, error) {
	if err == nil {
		err = s.flushCommits(ctx, voucherID)
	}
	if err != nil {
		return "", err
	}
	return state, nil
}

// findExisting returns the states of the orders that exist, and the orders that are missing, each once and sorted by
// id. An order that has given its unit back is Rejected if it was accepted again since. A late order is never missing:
// it is not to be inserted.
//
// findExisting returns [order.ErrIDTaken] if another user's order of the same voucher has one of the ids. Its query
// names the vouchers, so on Vitess it goes to their shards only. An order of another voucher that has one of the ids is
// found by secondOrder.
func (s *AdmissionStore) findExisting(ctx context.Context, batch []contract.Accepted) (states []order.Status, missing []contract.Accepted, err error) {
	if len(batch) == 0 {
		return nil, nil, nil
	}
	byID := make(map[int64]contract.Accepted, len(batch))
	for _, a := range batch {
		other, twice := byID[a.OrderID]
		if twice && !sameOrder(other, a.VoucherID, a.UserID) {
			return nil, nil, fmt.Errorf("%w: %d, twice in the batch", order.ErrIDTaken, a.OrderID)
		}
		if !twice || other.Late {
			byID[a.OrderID] = a
		}
	}
	var rows []orderRow
	found := s.db.rows.WithContext(ctx).Where("id IN ? AND voucher_id IN ?", slices.Collect(maps.Keys(byID)), vouchersOf(batch)).Find(&rows)
	if found.Error != nil {
		return nil, nil, translate(ctx, found.Error)
	}
	there := make(map[int64]orderRow, len(rows))
	for _, row := range rows {
		if !sameOrder(byID[row.ID], row.VoucherID, row.UserID) {
			return nil, nil, fmt.Errorf("%w: %d", order.ErrIDTaken, row.ID)
		}
		there[row.ID] = row
		delete(byID, row.ID)
	}
	states = make([]order.Status, len(batch))
	for i, a := range batch {
		if row, found := there[a.OrderID]; found {
			states[i] = order.Status(row.Status)
			if !a.Late && states[i].Persisted() && !a.PersistedAs(row.order()) {
				states[i] = order.Rejected
			}
		}
		if byID[a.OrderID].Late {
			delete(byID, a.OrderID)
		}
	}
	// Sorted, so that two batches with common orders do not deadlock.
	missing = slices.SortedFunc(maps.Values(byID), func(a, b contract.Accepted) int { return cmp.Compare(a.OrderID, b.OrderID) })
	return states, missing, nil
}

// vouchersOf lists the vouchers of some orders, each once.
func vouchersOf(batch []contract.Accepted) []int64 {
	ids := make([]int64, 0, 1)
	for _, a := range batch {
		if !slices.Contains(ids, a.VoucherID) {
			ids = append(ids, a.VoucherID)
		}
	}
	return ids
}

func sameOrder(a contract.Accepted, voucherID, userID int64) bool {
	return a.VoucherID == voucherID && a.UserID == userID
}

// persist inserts orders that did not exist, marks late orders as paid, and takes the units of both from the stock.
//
// All transactions lock in the same order: orders by id, then sequence numbers by voucher and bucket, then vouchers by
// id. The vouchers come last, since every other batch waits for them.
func (t *tx) persist(orders []contract.Accepted, late []lateOrder, prices priceList, generation int64) error {
	if len(orders) > 0 {
		if err := t.insertAccepted(orders, prices); err != nil {
			return err
		}
	}
	shares := map[int64]*voucherShare{}
	share := func(a contract.Accepted) {
		s := shares[a.VoucherID]
		if s == nil {
			s = &voucherShare{voucher: a.VoucherID, epoch: a.Epoch, newest: firstEpoch, generation: generation}
			shares[a.VoucherID] = s
		}
		s.add(a)
	}
	for _, a := range orders {
		share(a)
	}
	for _, o := range late {
		if err := t.payLateMoney(o); err != nil {
			return err
		}
		share(o.accepted)
	}
	vouchers := slices.Sorted(maps.Keys(shares))
	for _, id := range vouchers {
		if err := t.advanceSeqs(shares[id]); err != nil {
			return err
		}
	}
	for _, id := range vouchers {
		if err := t.takeStock(shares[id]); err != nil {
			return err
		}
	}
	return nil
}

// insertAccepted inserts orders, and the payments that are due for them.
func (t *tx) insertAccepted(orders []contract.Accepted, prices priceList) error {
	const columns = "INSERT INTO orders (id, voucher_id, user_id, unique_user_id, status, created_at, key_hash) VALUES "
	const row = "(?, ?, ?, ?, ?, ?, ?)"
	args := make([]any, 0, 7*len(orders))
	for _, a := range orders {
		args = append(args, a.OrderID, a.VoucherID, a.UserID, a.UserID, string(prices.status(a.VoucherID)), stamp(a.At), nullableKey(a.Key))
	}
	if err := t.enqueue(write{query: columns + strings.Repeat(row+", ", len(orders)-1) + row, args: args}); err != nil {
		return err
	}
	if unpaid := prices.unpaid(orders); len(unpaid) > 0 {
		return t.enqueue(t.db.newPayments(unpaid))
	}
	return nil
}

// voucherShare is the part of a batch that belongs to one voucher.
type voucherShare struct {
	voucher, orders int64
	epoch           int64         // the earliest of the orders
	newest          int64         // the latest of the orders that are not ahead of the database
	generation      int64         // of the pair
	seq             int64         // the greatest of the orders in the first bucket
	split           map[int]int64 // the greatest in each other bucket
}

func (s *voucherShare) add(a contract.Accepted) {
	s.orders++
	s.epoch = min(s.epoch, a.Epoch)
	if !a.Ahead {
		s.newest = max(s.newest, a.Epoch)
	}
	if a.Bucket == 0 {
		s.seq = max(s.seq, a.Seq)
		return
	}
	if s.split == nil {
		s.split = make(map[int]int64)
	}
	s.split[a.Bucket] = max(s.split[a.Bucket], a.Seq)
}

// advanceSeqs raises the sequence numbers of all buckets but the first. That of the first bucket is raised together
// with taking the stock.
func (t *tx) advanceSeqs(s *voucherShare) error {
	if len(s.split) == 0 {
		return nil
	}
	buckets := slices.Sorted(maps.Keys(s.split))
	cases := make([]any, 0, 3*len(buckets))
	numbers := make([]any, 0, len(buckets))
	for _, b := range buckets {
		cases = append(cases, b, s.split[b], s.split[b])
		numbers = append(numbers, b)
	}
	return t.enqueue(write{
		query: "UPDATE admission_seqs SET seq = CASE" + strings.Repeat(" WHEN bucket = ? AND seq < ? THEN ?", len(buckets)) +
			" ELSE seq END WHERE voucher_id = ? AND bucket IN (?" + strings.Repeat(", ?", len(buckets)-1) + ")",
		args: slices.Concat(cases, []any{s.voucher}, numbers),
	})
}

// takeStock takes the units of one voucher's orders from its stock, if there are enough and the orders' epoch is not
// over.
func (t *tx) takeStock(s *voucherShare) error {
	return t.enqueue(write{
		query: `UPDATE vouchers SET stock = stock - ?, version = version + ?,
			admission_seq = CASE WHEN admission_seq < ? THEN ? ELSE admission_seq END
			WHERE id = ? AND stock >= ? AND admission_epoch BETWEEN ? AND ? AND admission_generation <= ?`,
		args: []any{s.orders, s.orders, s.seq, s.seq, s.voucher, s.orders, s.newest, drainedBy(s.epoch), s.generation},
		check: oneRow(func(ctx context.Context) error {
			now, err := t.epochState(ctx, s.voucher)
			switch {
			case errors.Is(err, voucher.ErrNotFound):
				return missingVoucher(s.voucher)
			case err != nil:
				return err
			case now.Generation > s.generation:
				return anotherGeneration(s.voucher, now.Generation, s.generation)
			case now.Epoch > drainedBy(s.epoch):
				return fmt.Errorf("%w: %d; the epoch is %d now", order.ErrStaleEpoch, s.epoch, now.Epoch)
			case now.Epoch < s.newest:
				return fmt.Errorf("%w: %d; the epoch is %d now", order.ErrFutureEpoch, s.newest, now.Epoch)
			case now.Stock >= s.orders:
				// The stock has grown since, or the server does not count the rows it finds.
				return fmt.Errorf("%w: voucher %d has %d left, but the update found no row", order.ErrUnavailable, s.voucher, now.Stock)
			}
			return fmt.Errorf("%w: %d left of voucher %d, for %d orders", voucher.ErrSoldOut, now.Stock, s.voucher, s.orders)
		}),
	})
}

// missingVoucher is the error of accepted orders whose voucher has no row.
func missingVoucher(id int64) error {
	return fmt.Errorf("%w: %w: %d", order.ErrUnavailable, order.ErrVoucherMissing, id)
}

const liveOrdersQuery = `SELECT id, unique_user_id, COALESCE(key_hash, 0) FROM orders
	WHERE voucher_id = ? AND unique_user_id > ? ORDER BY unique_user_id LIMIT ?`

// LiveOrders implements [contract.AdmissionStore]. The index orders_live holds every column that is read. Reading the
// row of each order, scattered over the table, took fifty times as long when the table was larger than the server's
// buffer pool.
func (s *AdmissionStore) LiveOrders(ctx context.Context, voucherID, afterUser int64, limit int) ([]order.Order, error) {
	orders := make([]order.Order, 0, limit)
	err := (&tx{db: s.db}).readAll(ctx, liveOrdersQuery, []any{voucherID, afterUser, limit}, func(rows *sql.Rows) error {
		o := order.Order{VoucherID: voucherID}
		err := rows.Scan(&o.ID, &o.UserID, &o.Key)
		orders = append(orders, o)
		return err
	})
	if err == nil && len(orders) == 0 {
		err = s.flushCommits(ctx, voucherID)
	}
	if err != nil {
		return nil, err
	}
	return orders, nil
}

// AdmissionVouchers implements [contract.AdmissionStore].
func (s *AdmissionStore) AdmissionVouchers(ctx context.Context, endsAfter time.Time) ([]contract.AdmissionVoucher, error) {
	return s.admissionVouchers(ctx, 0, "NOT v.admission_cleared AND v.admission_forgotten <> v.admission_epoch AND v.end_at > ?", stamp(endsAfter))
}

// AdmissionVouchersOf lists those of some vouchers that are sold by admission and not forgotten, by ID.
func (s *AdmissionStore) AdmissionVouchersOf(ctx context.Context, ids []int64) ([]contract.AdmissionVoucher, error) {
	return s.admissionVouchers(ctx, 0, "NOT v.admission_cleared AND v.admission_forgotten <> v.admission_epoch AND v.id IN ?", ids)
}

// UnclearedVouchers implements [contract.AdmissionStore].
func (s *AdmissionStore) UnclearedVouchers(ctx context.Context, endedBy time.Time, after int64, limit int) ([]contract.AdmissionVoucher, error) {
	return s.admissionVouchers(ctx, limit, "NOT v.admission_cleared AND v.end_at <= ? AND v.id > ?", stamp(endedBy), after)
}

// AllAdmissionVouchers lists all vouchers that are or were sold by admission, by ID.
func (s *AdmissionStore) AllAdmissionVouchers(ctx context.Context) ([]contract.AdmissionVoucher, error) {
	return s.admissionVouchers(ctx, 0, "1 = 1")
}

// admissionVouchers lists the vouchers sold by admission that meet a condition, by ID. A limit of 0 means
// no limit.
func (s *AdmissionStore) admissionVouchers(
	ctx context.Context, limit int, condition string, args ...any,
) ([]contract.AdmissionVoucher, error) {
	var vouchers []contract.AdmissionVoucher
	found := s.db.rows.WithContext(ctx).Table("vouchers v").
		Select("v.id AS voucher_id, 1 + COUNT(s.bucket) AS buckets, MAX(v.admission_epoch) AS epoch").
		Joins("LEFT JOIN admission_seqs s ON s.voucher_id = v.id").
		Where("v.admission_epoch > 0 AND "+condition, args...).
		Group("v.id").Order("v.id")
	if limit > 0 {
		found = found.Limit(limit)
	}
	if err := found.Scan(&vouchers).Error; err != nil {
		return nil, translate(ctx, err)
	}
	return vouchers, nil
}
