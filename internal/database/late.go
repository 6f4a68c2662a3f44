package database

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// Late money under the admission flow. Its row in the table payments has the outcome 'late' until it is decided,
// by one of these statements. Each of them finds the row only if none of the others has:
//
//	payLateMoney   a voucher was reserved in Redis, and the order is Paid
//	PayForgotten   Redis has forgotten the voucher, and the database has one
//	RefundLate     Redis has none, or the user has another order
//	rejectLate     Redis has reserved one, and the database refuses the order
//	refundedLate   the provider has returned the money by itself
//
// The last three refuse the order for good: money that arrives afterwards is refused too. A worker that has found no
// undecided money is about to give the reservation back, and no other worker may use it then. So whoever refuses, and
// whoever adds undecided money, locks the order first.

var _ contract.LateStore = (*AdmissionStore)(nil)

// LateMoney implements [contract.LateStore].
func (s *AdmissionStore) LateMoney(ctx context.Context, after string, limit int) (all []contract.LateMoney, err error) {
	// Until Redis was told that the order's voucher came back, it still has the reservation of then.
	const query = `SELECT p.payment_id, o.id, o.voucher_id, o.user_id, o.status, COALESCE(o.key_hash, 0)
		FROM payments p JOIN orders o ON o.id = p.order_id AND o.voucher_id = p.voucher_id
		WHERE p.outcome = 'late' AND p.payment_id > ?
			AND NOT EXISTS (SELECT 1 FROM returned_orders r WHERE r.order_id = p.order_id AND r.voucher_id = p.voucher_id)
		ORDER BY p.payment_id LIMIT ?`
	var vouchers []int64
	err = (&tx{db: s.db}).readAll(ctx, query, []any{after, limit}, func(rows *sql.Rows) error {
		var m contract.LateMoney
		o := &m.Order
		err := rows.Scan(&m.PaymentID, &o.ID, &o.VoucherID, &o.UserID, &o.Status, &o.Key)
		all, vouchers = append(all, m), append(vouchers, o.VoucherID)
		return err
	})
	if err == nil && len(all) > 0 { // also for the returns of which the gate was told
		err = s.flushCommits(ctx, vouchers...)
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// RefundLate implements [contract.LateStore].
func (s *AdmissionStore) RefundLate(ctx context.Context, m contract.LateMoney, why order.Outcome) error {
	return s.apply(ctx, locked(m.Order.ID, m.Order.VoucherID), write{
		query: "UPDATE payments SET outcome = ?, refund_due = TRUE WHERE payment_id = ? AND voucher_id = ? AND outcome = 'late'",
		args:  []any{string(why), m.PaymentID, m.Order.VoucherID},
	})
}

// refusedWhy lists the outcomes of late money that was refused. While an order is cancelled or expired, its money has
// no other outcome that says not_payable.
const refusedWhy = "('no_stock', 'other_order', 'not_payable')"

// refusedLate returns why late money of an order was refused, or [sql.ErrNoRows].
func (l *Lifecycle) refusedLate(ctx context.Context, o heldOrder) (why order.Outcome, err error) {
	const query = "SELECT outcome FROM payments WHERE order_id = ? AND voucher_id = ? AND outcome IN " + refusedWhy + " ORDER BY received_at, payment_id LIMIT 1"
	err = (&tx{db: l.db}).read(ctx, query, []any{o.ID, o.VoucherID}, &why)
	return why, err
}

// keepUndecided records money that the gate is to decide about. The error is errMoved if other money of the order was
// refused meanwhile.
func (l *Lifecycle) keepUndecided(ctx context.Context, r order.Receipt, o heldOrder) error {
	w := newReceipt(r, o.VoucherID, order.LateUndecided)
	w.query = `INSERT INTO payments (payment_id, order_id, voucher_id, amount_cents, received_at, outcome, refund_due)
		SELECT ?, ?, ?, ?, ?, ?, ? FROM (SELECT 1) one
		WHERE NOT EXISTS (SELECT 1 FROM payments p WHERE p.order_id = ? AND p.voucher_id = ? AND p.outcome IN ` + refusedWhy + ")"
	w.args = append(w.args, r.OrderID, o.VoucherID)
	w.check = oneRow(func(_ context.Context) error {
		return fmt.Errorf("%w: other money of order %d was refused", errMoved, r.OrderID)
	})
	return l.db.apply(ctx, locked(r.OrderID, o.VoucherID), w)
}

// locked is a write that locks an order. It comes before the write that concerns the order's money.
func locked(orderID, voucherID int64) write {
	return write{query: "UPDATE orders SET status = status WHERE id = ? AND voucher_id = ?", args: []any{orderID, voucherID}}
}

// PayForgotten implements [contract.LateStore]. While a voucher is forgotten, nobody sells it and no order of it is
// pending, so the database's stock is what can be sold. Opening it again locks the same row.
func (s *AdmissionStore) PayForgotten(ctx context.Context, m contract.LateMoney) error {
	late := lateOrder{from: m.Order.Status, payment: m.PaymentID, accepted: contract.Accepted{OrderID: m.Order.ID, VoucherID: m.Order.VoucherID}}
	err := s.transact(ctx, func(_ context.Context, t *tx) error {
		if err := t.payLateMoney(late); err != nil {
			return err
		}
		return t.enqueue(write{
			query: `UPDATE vouchers SET stock = stock - 1, version = version + 1
				WHERE id = ? AND stock > 0 AND admission_epoch = admission_forgotten`,
			args: []any{m.Order.VoucherID},
			check: oneRow(func(ctx context.Context) error {
				now, err := t.epochState(ctx, m.Order.VoucherID)
				switch {
				case err != nil:
					return err
				case now.Forgotten && now.Stock == 0:
					return voucher.ErrSoldOut
				}
				return fmt.Errorf("%w: voucher %d is sold again", order.ErrConflict, m.Order.VoucherID)
			}),
		})
	})
	if errors.Is(err, errMoved) {
		return nil // it is decided
	}
	return err
}

// lateOrder is an order that was cancelled or expired, with undecided money for it.
type lateOrder struct {
	accepted contract.Accepted
	from     order.Status
	payment  string
}

// payLateMoney pays an order with undecided money. The caller takes the unit from the stock.
func (t *tx) payLateMoney(o lateOrder) error {
	held := heldOrder{Order: order.Order{ID: o.accepted.OrderID, VoucherID: o.accepted.VoucherID}}
	if _, err := t.changeState([]heldOrder{held}, o.from, order.Paid); err != nil {
		return err
	}
	return t.enqueue(write{
		query: "UPDATE payments SET outcome = 'paid_late' WHERE payment_id = ? AND voucher_id = ? AND outcome = 'late'",
		args:  []any{o.payment, held.VoucherID},
		check: oneRow(func(_ context.Context) error {
			return fmt.Errorf("%w: the money of payment %s is decided", errMoved, o.payment)
		}),
	}, paidBy(o.payment, held))
}

// lateOrders returns the late orders of a batch that can be paid, each once. It takes the states that the database
// holds, and sets those of the other orders: an order that is carried out keeps its state, and an order whose money was
// decided otherwise is Rejected, so that its reservation goes back. That is final: no further money becomes undecided.
func (s *AdmissionStore) lateOrders(ctx context.Context, batch []contract.Accepted, states []order.Status) (late []lateOrder, err error) {
	seen := map[int64]bool{}
	for i, a := range batch {
		if !a.Late || a.PersistedAs(order.Order{Status: states[i]}) {
			continue
		}
		if states[i] == "" { // an order that the database has lost has no money
			states[i] = order.Rejected
			continue
		}
		if seen[a.OrderID] {
			states[i] = ""
			continue
		}
		payment, err := s.undecidedMoney(ctx, a)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			if states[i], err = s.decidedAs(ctx, a); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		}
		late = append(late, lateOrder{accepted: a, from: states[i], payment: payment})
		states[i], seen[a.OrderID] = "", true
	}
	slices.SortFunc(late, func(a, b lateOrder) int { return cmp.Compare(a.accepted.OrderID, b.accepted.OrderID) })
	return late, nil
}

// decidedAs returns the state of a late order whose money is decided. It reads the order again, because the order may
// have been paid since.
func (s *AdmissionStore) decidedAs(ctx context.Context, a contract.Accepted) (order.Status, error) {
	states, _, err := s.findExisting(ctx, []contract.Accepted{a})
	switch {
	case err != nil:
		return "", err
	case a.PersistedAs(order.Order{Status: states[0]}):
		return states[0], nil
	}
	return order.Rejected, nil
}

// undecidedMoney returns the first payment of an order that is undecided, or [sql.ErrNoRows].
func (s *AdmissionStore) undecidedMoney(ctx context.Context, a contract.Accepted) (payment string, err error) {
	const query = "SELECT payment_id FROM payments WHERE order_id = ? AND voucher_id = ? AND outcome = 'late' ORDER BY received_at, payment_id LIMIT 1"
	err = (&tx{db: s.db}).read(ctx, query, []any{a.OrderID, a.VoucherID}, &payment)
	return payment, err
}

// rejectLate does what Reject does, for a late order. A reservation of an epoch that is over says nothing about the
// epoch that is open now, so the money stays undecided.
func (s *AdmissionStore) rejectLate(ctx context.Context, a contract.Accepted) (order.Status, error) {
	now, err := (&tx{db: s.db}).epochState(ctx, a.VoucherID)
	switch {
	case errors.Is(err, voucher.ErrNotFound):
		return "", missingVoucher(a.VoucherID)
	case err != nil:
		return "", err
	}
	if now.Epoch <= drainedBy(a.Epoch) {
		err = s.apply(ctx, locked(a.OrderID, a.VoucherID), write{
			query: `UPDATE payments SET refund_due = TRUE, outcome = CASE
				WHEN EXISTS (SELECT 1 FROM orders o WHERE o.voucher_id = ? AND o.unique_user_id = ?) THEN 'other_order'
				ELSE 'no_stock' END
				WHERE order_id = ? AND voucher_id = ? AND outcome = 'late'`,
			args: []any{a.VoucherID, a.UserID, a.OrderID, a.VoucherID},
		})
		if err != nil {
			return "", err
		}
	}
	return s.decidedAs(ctx, a) // another worker may have been faster
}

// refundedLate notes that the provider has returned undecided money by itself. If the money is decided meanwhile, the
// caller asks again.
func refundedLate(paymentID string, voucherID int64) write {
	return write{
		query: `UPDATE payments SET outcome = 'not_payable', refund_due = FALSE, refunded_at = ?
			WHERE payment_id = ? AND voucher_id = ? AND outcome = 'late'`,
		args: []any{stamp(time.Now()), paymentID, voucherID},
		check: oneRow(func(_ context.Context) error {
			return fmt.Errorf("%w: the money of payment %s was decided meanwhile", order.ErrUnavailable, paymentID)
		}),
	}
}
