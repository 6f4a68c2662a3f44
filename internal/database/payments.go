package database

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"seckill/internal/order"
	"seckill/internal/voucher"
)

// PaymentOf implements [order.LifecycleStore].
func (l *Lifecycle) PaymentOf(ctx context.Context, orderID int64) (order.Payment, error) {
	const query = `SELECT o.voucher_id, o.status, p.amount_cents, p.pay_by, COALESCE(p.payment_id, ''), COALESCE(p.pay_url, '')
		FROM orders o LEFT JOIN order_payments p ON p.order_id = o.id AND p.voucher_id = o.voucher_id WHERE o.id = ?`
	p := order.Payment{OrderID: orderID}
	var status order.Status
	var cents sql.NullInt64
	var payBy sql.NullTime
	err := (&tx{db: l.db}).read(ctx, query, []any{orderID}, &p.VoucherID, &status, &cents, &payBy, &p.ID, &p.URL)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return order.Payment{}, order.ErrNotFound
	case err != nil:
		return order.Payment{}, err
	case !cents.Valid, p.ID == "" && status != order.Unpaid:
		return order.Payment{}, &order.StateError{Err: order.ErrNotPayable, Status: status}
	}
	p.AmountCents, p.PayBy = cents.Int64, utcOrZero(payBy)
	// The provider will be told of the order, or the buyer of the payment.
	if err := l.db.flushCommits(ctx, l.db.writers, p.VoucherID); err != nil {
		return order.Payment{}, err
	}
	return p, nil
}

// KeepPayment implements [order.LifecycleStore].
func (l *Lifecycle) KeepPayment(ctx context.Context, p order.Payment) (order.Payment, error) {
	kept := false
	err := l.db.apply(ctx, write{
		query: "UPDATE order_payments SET payment_id = ?, pay_url = ?, look_at = ? WHERE order_id = ? AND voucher_id = ? AND payment_id IS NULL",
		args:  []any{p.ID, p.URL, stamp(order.FirstLookup(time.Now(), p.PayBy)), p.OrderID, p.VoucherID},
		check: func(_ context.Context, found int64) error {
			kept = found == 1
			return nil
		},
	})
	switch {
	case err != nil:
		return order.Payment{}, err
	case kept:
		return p, nil
	}
	return l.PaymentOf(ctx, p.OrderID)
}

// maxSettles bounds how often MarkPaid begins again because the order has moved on.
const maxSettles = 10

// MarkPaid implements [order.LifecycleStore]. Each attempt is one transaction, which first adds the row of the payment:
// two messages about the same payment meet there. An attempt changes nothing if the order's state has changed since it
// was read. The next attempt reads again.
func (l *Lifecycle) MarkPaid(ctx context.Context, r order.Receipt) (order.Settlement, error) {
	for range maxSettles {
		switch s, voucherID, err := l.settled(ctx, r.PaymentID); {
		case err == nil:
			return s, l.db.flushCommits(ctx, l.db.writers, voucherID)
		case !errors.Is(err, sql.ErrNoRows):
			return order.Settlement{}, err
		}
		outcome, err := l.settle(ctx, r)
		if errors.Is(err, errDuplicate) || errors.Is(err, errMoved) {
			continue
		}
		return order.Settlement{Outcome: outcome}, err
	}
	return order.Settlement{}, fmt.Errorf("%w: order %d changes all the time", order.ErrUnavailable, r.OrderID)
}

// settled returns the outcome of a payment, and the voucher, or [sql.ErrNoRows].
func (l *Lifecycle) settled(ctx context.Context, paymentID string) (s order.Settlement, voucherID int64, err error) {
	s.Repeated = true
	err = (&tx{db: l.db}).read(ctx, "SELECT outcome, voucher_id FROM payments WHERE payment_id = ?", []any{paymentID}, &s.Outcome, &voucherID)
	return s, voucherID, err
}

// settle decides about money that was not seen before.
func (l *Lifecycle) settle(ctx context.Context, r order.Receipt) (order.Outcome, error) {
	o, err := l.read(ctx, r.OrderID)
	switch {
	case errors.Is(err, order.ErrNotFound):
		return l.keep(ctx, r, 0, order.Unmatched)
	case err != nil:
		return "", err
	}
	var cents int64
	err = (&tx{db: l.db}).read(ctx, "SELECT amount_cents FROM order_payments WHERE order_id = ? AND voucher_id = ?", []any{o.ID, o.VoucherID}, &cents)
	late := o.Status == order.Cancelled || o.Status == order.Expired
	switch {
	case errors.Is(err, sql.ErrNoRows): // the order never asked for payment
		return l.keep(ctx, r, o.VoucherID, order.RefundNotPayable)
	case err != nil:
		return "", err
	case o.Status != order.Unpaid && !late:
		return l.keep(ctx, r, o.VoucherID, order.RefundNotPayable)
	case cents != r.AmountCents:
		return l.keep(ctx, r, o.VoucherID, order.RefundWrongAmount)
	case late:
		return l.payLate(ctx, r, o)
	}
	return order.SettledPaid, l.pay(ctx, r, o, order.SettledPaid)
}

// keep records money that pays for nothing. It is to be refunded, unless it belongs to no order: then its voucher is 0.
func (l *Lifecycle) keep(ctx context.Context, r order.Receipt, voucherID int64, outcome order.Outcome) (order.Outcome, error) {
	return outcome, l.db.apply(ctx, newReceipt(r, voucherID, outcome))
}

// pay moves an order to Paid.
func (l *Lifecycle) pay(ctx context.Context, r order.Receipt, o heldOrder, outcome order.Outcome) error {
	return l.db.transact(ctx, func(_ context.Context, t *tx) error {
		if err := t.enqueue(newReceipt(r, o.VoucherID, outcome)); err != nil {
			return err
		}
		if err := t.move([]heldOrder{o}, o.Status, order.Paid); err != nil {
			return err
		}
		return t.enqueue(paidBy(r.PaymentID, o))
	})
}

// paidBy notes the payment that has paid for an order. From then on the order's payment need not be looked up.
func paidBy(paymentID string, o heldOrder) write {
	return write{
		query: "UPDATE order_payments SET payment_id = ?, look_at = NULL WHERE order_id = ? AND voucher_id = ?",
		args:  []any{paymentID, o.ID, o.VoucherID},
	}
}

// payLate lets an order that was cancelled or expired take a unit again. The statements themselves decide: the unique
// index refuses a user with another order, and the condition on the stock refuses if no unit is left. In both cases
// nothing is written, and the money is to be refunded.
//
// Under the admission flow the stock that can be sold is in Redis, and the money waits until the gate was asked; see
// late.go.
//
// Under both flows, once money of the order was refused, further money is refused for the same reason.
func (l *Lifecycle) payLate(ctx context.Context, r order.Receipt, o heldOrder) (order.Outcome, error) {
	refused, err := l.refusedLate(ctx, o)
	switch {
	case err == nil:
		return l.keep(ctx, r, o.VoucherID, refused)
	case !errors.Is(err, sql.ErrNoRows):
		return "", err
	}
	admitted, err := l.soldByAdmission(ctx, o.VoucherID)
	switch {
	case err != nil:
		return "", err
	case admitted:
		return order.LateUndecided, l.keepUndecided(ctx, r, o)
	}
	err = l.pay(ctx, r, o, order.SettledLate)
	switch {
	case errors.Is(err, errDuplicate):
		if _, _, settled := l.settled(ctx, r.PaymentID); settled == nil {
			return "", errMoved // the payment was the duplicate
		}
		return l.keep(ctx, r, o.VoucherID, order.RefundOtherOrder)
	case errors.Is(err, voucher.ErrSoldOut):
		return l.keep(ctx, r, o.VoucherID, order.RefundNoStock)
	}
	return order.SettledLate, err
}

func (l *Lifecycle) soldByAdmission(ctx context.Context, voucherID int64) (admitted bool, err error) {
	err = (&tx{db: l.db}).readVoucher(ctx, "SELECT admission_epoch > 0 FROM vouchers WHERE id = ?", voucherID, &admitted)
	return admitted, err
}

// takeStockAgain takes a unit for an order that had given its unit back.
func (t *tx) takeStockAgain(o heldOrder) write {
	return write{
		query: "UPDATE vouchers SET stock = stock - 1, version = version + 1 WHERE id = ? AND stock > 0",
		args:  []any{o.VoucherID},
		check: t.orAnywhere(o.VoucherID),
	}
}

func newReceipt(r order.Receipt, voucherID int64, outcome order.Outcome) write {
	return write{
		query: "INSERT INTO payments (payment_id, order_id, voucher_id, amount_cents, received_at, outcome, refund_due) VALUES (?, ?, ?, ?, ?, ?, ?)",
		args:  []any{r.PaymentID, r.OrderID, voucherID, r.AmountCents, stamp(r.At), string(outcome), outcome.Refund()},
	}
}

// BeginRefund implements [order.LifecycleStore].
func (l *Lifecycle) BeginRefund(ctx context.Context, orderID int64) (order.Order, error) {
	return l.giveBack(ctx, orderID, order.Paid, order.Refunding, order.ErrNotRefundable, func(o heldOrder) write {
		return write{
			query: "UPDATE payments SET refund_due = TRUE WHERE order_id = ? AND voucher_id = ? AND outcome IN ('paid', 'paid_late')",
			args:  []any{o.ID, o.VoucherID},
		}
	})
}

// DueRefunds implements [order.LifecycleStore].
func (l *Lifecycle) DueRefunds(ctx context.Context, after string, limit int) (due []order.RefundRequest, err error) {
	const query = "SELECT payment_id, voucher_id, amount_cents FROM payments WHERE refund_due = TRUE AND payment_id > ? ORDER BY payment_id LIMIT ?"
	var vouchers []int64
	err = (&tx{db: l.db}).readAll(ctx, query, []any{after, limit}, func(rows *sql.Rows) error {
		var r order.RefundRequest
		var voucherID int64
		err := rows.Scan(&r.PaymentID, &voucherID, &r.AmountCents)
		vouchers = append(vouchers, voucherID)
		r.Key = "refund-" + r.PaymentID
		due = append(due, r)
		return err
	})
	if err == nil && len(due) > 0 { // otherwise the provider might return the money of an order that a crash makes paid again
		err = l.db.flushCommits(ctx, l.db.writers, vouchers...)
	}
	if err != nil {
		return nil, err
	}
	return due, nil
}

// MarkRefunded implements [order.LifecycleStore].
func (l *Lifecycle) MarkRefunded(ctx context.Context, paymentID string) error {
	var o heldOrder
	var outcome order.Outcome
	err := (&tx{db: l.db}).read(ctx, "SELECT order_id, voucher_id, outcome FROM payments WHERE payment_id = ?", []any{paymentID}, &o.ID, &o.VoucherID, &outcome)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return order.ErrNotFound
	case err != nil:
		return err
	case outcome == order.LateUndecided:
		return l.db.apply(ctx, locked(o.ID, o.VoucherID), refundedLate(paymentID, o.VoucherID))
	}
	marked := false
	err = l.db.transact(ctx, func(_ context.Context, t *tx) error {
		if outcome.Bought() {
			if err := t.move([]heldOrder{o}, order.Refunding, order.Refunded); err != nil {
				return err
			}
		}
		return t.enqueue(write{
			query: "UPDATE payments SET refund_due = FALSE, refunded_at = ? WHERE payment_id = ? AND voucher_id = ? AND refunded_at IS NULL AND (refund_due = TRUE OR outcome = 'unmatched')",
			args:  []any{stamp(time.Now()), paymentID, o.VoucherID},
			check: func(_ context.Context, found int64) error {
				marked = found == 1
				return nil
			},
		})
	})
	if errors.Is(err, errMoved) || err == nil && !marked { // refunded by an earlier call
		return l.db.flushCommits(ctx, l.db.writers, o.VoucherID)
	}
	return err
}

// UnmatchedPayments implements [order.LifecycleStore].
func (l *Lifecycle) UnmatchedPayments(ctx context.Context) (payments, cents int64, err error) {
	const query = "SELECT COUNT(*), COALESCE(SUM(amount_cents), 0) FROM payments WHERE outcome = 'unmatched' AND refunded_at IS NULL"
	err = (&tx{db: l.db}).read(ctx, query, nil, &payments, &cents)
	return payments, cents, err
}

// sortedKeys lists the keys of a map in ascending order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
