package database

import (
	"context"
	"database/sql"
	"maps"
	"sync"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
)

// returnedTotal is how many units the orders of a voucher v have given back since its latest even epoch was opened.
const returnedTotal = `(SELECT COALESCE(SUM(r.total), 0) FROM admission_returns r
	WHERE r.voucher_id = v.id AND r.epoch = v.admission_epoch - v.admission_epoch % 2)`

// firstTotal is how many units were given back to the first bucket of a voucher v in its open epoch.
const firstTotal = `(SELECT COALESCE(MAX(r.total), 0) FROM admission_returns r
	WHERE r.voucher_id = v.id AND r.bucket = 0 AND r.epoch = v.admission_epoch)`

// arrivedIn counts the units that a bucket of a voucher v got back in its open epoch and that Redis was told of: the
// total less the orders of which Redis is still to be told.
func arrivedIn(bucket string) string {
	return `(SELECT COALESCE(MAX(r.total) - COUNT(u.order_id), 0) FROM admission_returns r
		LEFT JOIN returned_orders u ON u.voucher_id = r.voucher_id AND u.bucket = r.bucket AND u.epoch = r.epoch
		WHERE r.voucher_id = v.id AND r.bucket = ` + bucket + ` AND r.epoch = v.admission_epoch)`
}

// prices remembers the prices of vouchers. A voucher's price and its time to pay never change, so a batch of orders
// needs no query if its vouchers were seen before.
type prices struct {
	mu    sync.Mutex
	known priceList
}

// priceList has the price of each voucher. A voucher that asks for no payment has no time to pay.
type priceList map[int64]price

type price struct {
	cents  int64
	within time.Duration
}

// maxPrices bounds how many prices are remembered. A single batch may have orders of more vouchers.
const maxPrices = 10_000

// of returns the prices of the vouchers of some orders. Its error is [order.ErrVoucherMissing] if one of them has no
// row. Without that error the order could be sold for nothing: the row may be back when the orders are written.
func (p *prices) of(ctx context.Context, db *DB, orders []contract.Accepted) (priceList, error) {
	list := make(priceList, 1)
	var missing []any
	p.mu.Lock()
	for _, a := range orders {
		if _, listed := list[a.VoucherID]; listed {
			continue
		}
		known, there := p.known[a.VoucherID]
		list[a.VoucherID] = known
		if !there {
			missing = append(missing, a.VoucherID)
		}
	}
	p.mu.Unlock()
	if len(missing) == 0 {
		return list, nil
	}
	found := make(priceList, len(missing))
	query := "SELECT id, price_cents, pay_within_s FROM vouchers WHERE id IN (" + placeholders(len(missing)) + ")"
	err := (&tx{db: db}).readAll(ctx, query, missing, func(rows *sql.Rows) error {
		var id, cents, seconds int64
		err := rows.Scan(&id, &cents, &seconds)
		found[id] = price{cents: cents, within: time.Duration(seconds) * time.Second}
		return err
	})
	if err != nil {
		return nil, err
	}
	p.remember(found)
	for _, id := range missing {
		if _, there := found[id.(int64)]; !there {
			return nil, missingVoucher(id.(int64))
		}
	}
	maps.Copy(list, found)
	return list, nil
}

// remember adds prices. When there are too many it forgets the earlier ones, which can be read again.
func (p *prices) remember(found priceList) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known)+len(found) > maxPrices {
		p.known = make(priceList)
	}
	maps.Copy(p.known, found)
}

// status returns the state of an order that is written now.
func (l priceList) status(voucherID int64) order.Status {
	if l[voucherID].within > 0 {
		return order.Unpaid
	}
	return order.Confirmed
}

// unpaid returns the payments that are due for some orders. The time to pay begins now: the buyer could not pay before.
func (l priceList) unpaid(orders []contract.Accepted) (unpaid []heldOrder) {
	now := time.Now()
	for _, a := range orders {
		if p := l[a.VoucherID]; p.within > 0 {
			o := order.Order{ID: a.OrderID, VoucherID: a.VoucherID, CreatedAt: now, PayBy: now.Add(p.within), AmountCents: p.cents}
			unpaid = append(unpaid, heldOrder{Order: o, bucket: a.Bucket})
		}
	}
	return unpaid
}

var _ contract.ReturnStore = (*AdmissionStore)(nil)

// maxReturned is the most orders of a bucket that are returned at a time.
const maxReturned = 500

// Returns implements [contract.ReturnStore].
func (s *AdmissionStore) Returns(ctx context.Context, after contract.Return, limit int) (due []contract.Return, more bool, err error) {
	const query = `SELECT g.voucher_id, g.bucket, g.epoch, v.admission_epoch = g.epoch
		FROM (SELECT DISTINCT voucher_id, bucket, epoch FROM returned_orders
			WHERE (voucher_id, bucket, epoch) > (?, ?, ?) ORDER BY voucher_id, bucket, epoch LIMIT ?) g
		JOIN vouchers v ON v.id = g.voucher_id ORDER BY g.voucher_id, g.bucket, g.epoch`
	var over []contract.Return
	err = (&tx{db: s.db}).readAll(ctx, query, []any{after.VoucherID, after.Bucket, after.Epoch, limit}, func(rows *sql.Rows) error {
		var r contract.Return
		var current bool
		err := rows.Scan(&r.VoucherID, &r.Bucket, &r.Epoch, &current)
		if current {
			due = append(due, r)
		} else {
			over = append(over, r)
		}
		return err
	})
	if err != nil {
		return nil, false, err
	}
	for _, r := range over {
		if err := s.forgetReturns(ctx, r); err != nil {
			return nil, false, err
		}
	}
	for i := range due {
		if err := s.fill(ctx, &due[i]); err != nil {
			return nil, false, err
		}
	}
	if len(due) > 0 { // otherwise Redis might sell stock that a crash takes back
		vouchers := make([]int64, len(due))
		for i, r := range due {
			vouchers[i] = r.VoucherID
		}
		if err := s.flushCommits(ctx, vouchers...); err != nil {
			return nil, false, err
		}
	}
	return due, len(due)+len(over) == limit, nil
}

// forgetReturns removes the returns of an epoch that is over. An epoch never comes back.
func (s *AdmissionStore) forgetReturns(ctx context.Context, r contract.Return) error {
	return s.apply(ctx, write{
		query: "DELETE FROM returned_orders WHERE voucher_id = ? AND bucket = ? AND epoch = ?",
		args:  []any{r.VoucherID, r.Bucket, r.Epoch},
	})
}

// fill reads the orders of a return, and then the total. The total includes those orders, since one transaction writes
// both.
func (s *AdmissionStore) fill(ctx context.Context, r *contract.Return) error {
	read := &tx{db: s.db}
	// An order that was paid late has given its first unit back before, and Redis was told of that.
	const orders = `SELECT r.order_id, r.user_id, COALESCE(r.key_hash, 0),
			EXISTS (SELECT 1 FROM payments p WHERE p.order_id = r.order_id AND p.voucher_id = r.voucher_id AND p.outcome = 'paid_late')
		FROM returned_orders r WHERE r.voucher_id = ? AND r.bucket = ? AND r.epoch = ? ORDER BY r.order_id LIMIT ?`
	err := read.readAll(ctx, orders, []any{r.VoucherID, r.Bucket, r.Epoch, maxReturned}, func(rows *sql.Rows) error {
		var o contract.ReturnedOrder
		err := rows.Scan(&o.ID, &o.UserID, &o.Key, &o.Late)
		r.Orders = append(r.Orders, o)
		return err
	})
	if err != nil {
		return err
	}
	const total = "SELECT COALESCE(MAX(total), 0) FROM admission_returns WHERE voucher_id = ? AND bucket = ? AND epoch = ?"
	return read.read(ctx, total, []any{r.VoucherID, r.Bucket, r.Epoch}, &r.Total)
}

// Returned implements [contract.ReturnStore].
func (s *AdmissionStore) Returned(ctx context.Context, r contract.Return, seq int64) error {
	if len(r.Orders) == 0 {
		return nil
	}
	ids := []any{r.VoucherID}
	for _, o := range r.Orders {
		ids = append(ids, o.ID)
	}
	advance := write{
		query: "UPDATE vouchers SET admission_seq = ? WHERE id = ? AND admission_seq < ?",
		args:  []any{seq, r.VoucherID, seq},
	}
	if r.Bucket > 0 {
		advance = write{
			query: "UPDATE admission_seqs SET seq = ? WHERE voucher_id = ? AND bucket = ? AND seq < ?",
			args:  []any{seq, r.VoucherID, r.Bucket, seq},
		}
	}
	return s.apply(ctx, write{
		query: "DELETE FROM returned_orders WHERE voucher_id = ? AND order_id IN (" + placeholders(len(r.Orders)) + ")", args: ids,
	}, advance)
}
