package database

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/golang-migrate/migrate/v4"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

const priceCents = 8000

// newUnpaid returns an order whose time to pay is over at a time.
func newUnpaid(id, voucherID, userID int64, payBy time.Time) order.Order {
	o := newOrder(id, voucherID, userID)
	o.Status, o.PayBy, o.AmountCents = order.Unpaid, payBy, priceCents
	return o
}

func placeUnpaid(t testing.TB, d *DB, id, userID int64) {
	t.Helper()
	fail.NowIf(t, placeOrder(context.Background(), d, newUnpaid(id, 1, userID, time.Now().Add(time.Hour)), true))
}

func cancelOrders(t testing.TB, d *DB, ids ...int64) {
	t.Helper()
	for _, id := range ids {
		fail.NowIf(t, fail.Of(d.Lifecycle().Cancel(context.Background(), id)))
	}
}

func receipt(payment string, orderID int64) order.Receipt {
	return order.Receipt{PaymentID: payment, OrderID: orderID, AmountCents: priceCents, At: time.Date(2026, 2, 3, 4, 6, 0, 0, time.UTC)}
}

// settles marks an order as paid and compares the outcome.
func settles(t testing.TB, d *DB, r order.Receipt, want order.Settlement) {
	t.Helper()
	if got, err := d.Lifecycle().MarkPaid(context.Background(), r); err != nil || got != want {
		t.Errorf("payment %s: %+v, %v; want %+v", r.PaymentID, got, err, want)
	}
}

// wantState compares an order's state and its history.
func wantState(t testing.TB, d *DB, id int64, history ...order.Status) order.Details {
	t.Helper()
	o, err := d.Orders().Order(context.Background(), id)
	fail.NowIf(t, err)
	details, err := d.Lifecycle().Details(context.Background(), o)
	fail.NowIf(t, err)
	var got []order.Status
	for _, e := range details.History {
		got = append(got, e.Status)
	}
	// The test's orders have a creation time of their own, and two states in one microsecond have no order.
	if len(got) != len(history) || o.Status != history[len(history)-1] {
		t.Errorf("order %d is %s with the history %v, want %v", id, o.Status, got, history)
	}
	return details
}

func TestUnpaidOrderGivesItsVoucherBackOnce(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 3)
		placeUnpaid(t, d, 10, 100)
		wantAudit(t, d, order.Audit{InitialStock: 3, Stock: 2, Orders: 1, DistinctUsers: 1})
		for range 3 { // a repetition is told the same
			o, err := d.Lifecycle().Cancel(t.Context(), 10)
			if err != nil || o.Status != order.Cancelled || o.UserID != 100 || o.VoucherID != 1 {
				t.Fatalf("%+v, %v", o, err)
			}
		}
		wantAudit(t, d, order.Audit{InitialStock: 3, Stock: 3})
		wantState(t, d, 10, order.Unpaid, order.Cancelled)
		placeUnpaid(t, d, 11, 100) // the user may order again
		wantAudit(t, d, order.Audit{InitialStock: 3, Stock: 2, Orders: 1, DistinctUsers: 1})

		fail.Unless(t, fail.Of(d.Lifecycle().Cancel(t.Context(), 99)), order.ErrNotFound)
		fail.NowIf(t, placeOrder(t.Context(), d, newOrder(12, 1, 102), true))
		_, err := d.Lifecycle().Cancel(t.Context(), 12) // it asks for no payment
		fail.Unless(t, err, order.ErrNotCancellable)
		if s, ok := errors.AsType[*order.StateError](err); !ok || s.Status != order.Confirmed {
			t.Errorf("%v does not say that the order is confirmed", err)
		}
	})
}

// A voucher of which nothing is left says when the first of its unpaid orders is due, in whichever way it is read.
func TestSoldOutVoucherSaysWhenAUnitMayReturn(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		now := stamp(time.Now())
		for id := range int64(2) {
			fail.NowIf(t, d.Vouchers().CreateVoucher(t.Context(), &voucher.Voucher{
				ID: id + 1, Title: "t", PriceCents: priceCents, InitialStock: 2, Stock: 2, PayWithin: time.Hour,
				BeginAt: now.Add(-time.Hour), EndAt: now.Add(time.Hour), Policy: voucher.DefaultPolicy(), CreatedAt: now,
			}))

		}
		want := func(returns time.Time) {
			t.Helper()
			one, err := d.Vouchers().Voucher(t.Context(), 1)
			fail.NowIf(t, err)
			byID, err := d.Vouchers().VouchersByID(t.Context(), []int64{1})
			fail.NowIf(t, err)
			list, err := d.Vouchers().Vouchers(t.Context(), voucher.List{State: voucher.StateOpen}, time.Now(), 1)
			fail.NowIf(t, err)
			for _, v := range []*voucher.Voucher{one, byID[1].Voucher, list[0]} {
				// The time to pay is counted by the database's clock.
				if off := v.ReturnsAt.Sub(returns).Abs(); v.ID != 1 || v.ReturnsAt.IsZero() != returns.IsZero() || off > time.Hour/2 {
					t.Errorf("voucher %d with %d left returns at %v, want %v", v.ID, v.Stock, v.ReturnsAt, returns)
				}
			}
		}
		place := func(id, voucherID int64, payBy time.Time) {
			fail.NowIf(t, placeOrder(t.Context(), d, newUnpaid(id, voucherID, id, payBy), true))
		}
		place(10, 2, now.Add(time.Hour))
		place(11, 1, now.Add(3*time.Hour))
		want(time.Time{}) // one is left
		place(12, 1, now.Add(2*time.Hour))
		want(now.Add(2 * time.Hour))
		_, err := d.Lifecycle().Cancel(t.Context(), 12)
		fail.NowIf(t, err)
		want(time.Time{})
		fail.NowIf(t, placeOrder(t.Context(), d, newOrder(13, 1, 13), true))
		want(now.Add(3 * time.Hour))
	})
}

func TestPaidOrderIsRefunded(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		lifecycle := d.Lifecycle()
		createVoucher(t, d, 1, 1)
		placeUnpaid(t, d, 10, 100)
		asked, err := lifecycle.PaymentOf(t.Context(), 10)
		if err != nil || asked.ID != "" || asked.AmountCents != priceCents || asked.PayBy.IsZero() {
			t.Fatalf("%+v, %v", asked, err)
		}
		for _, id := range []string{"pay_1", "pay_2"} { // the first one stays
			asked.ID, asked.URL = id, "https://pay.example/"+id
			kept, err := lifecycle.KeepPayment(t.Context(), asked)
			if err != nil || kept.ID != "pay_1" || kept.URL != "https://pay.example/pay_1" {
				t.Fatalf("%+v, %v", kept, err)
			}
		}
		settles(t, d, receipt("pay_1", 10), order.Settlement{Outcome: order.SettledPaid})
		settles(t, d, receipt("pay_1", 10), order.Settlement{Outcome: order.SettledPaid, Repeated: true})
		settles(t, d, receipt("pay_2", 10), order.Settlement{Outcome: order.RefundNotPayable}) // paid twice
		fail.Unless(t, fail.Of(lifecycle.Cancel(t.Context(), 10)), order.ErrNotCancellable)
		wantAudit(t, d, order.Audit{InitialStock: 1, Orders: 1, DistinctUsers: 1})
		if kept, err := lifecycle.PaymentOf(t.Context(), 10); err != nil || kept.ID != "pay_1" {
			t.Errorf("the payment of a paid order: %+v, %v", kept, err)
		}

		for range 2 {
			if o, err := lifecycle.BeginRefund(t.Context(), 10); err != nil || o.Status != order.Refunding {
				t.Fatalf("%+v, %v", o, err)
			}
		}
		wantAudit(t, d, order.Audit{InitialStock: 1, Stock: 1})
		due, err := lifecycle.DueRefunds(t.Context(), "", 10)
		fail.NowIf(t, err)
		want := []order.RefundRequest{{Key: "refund-pay_1", PaymentID: "pay_1", AmountCents: priceCents}, {Key: "refund-pay_2", PaymentID: "pay_2", AmountCents: priceCents}}
		if !reflect.DeepEqual(due, want) {
			t.Errorf("due: %+v", due)
		}
		for _, r := range due {
			for range 2 {
				fail.NowIf(t, lifecycle.MarkRefunded(t.Context(), r.PaymentID))
			}
		}
		if due, err := lifecycle.DueRefunds(t.Context(), "", 10); err != nil || len(due) > 0 {
			t.Errorf("still due: %+v, %v", due, err)
		}
		details := wantState(t, d, 10, order.Unpaid, order.Paid, order.Refunding, order.Refunded)
		if details.PaidAt.IsZero() || len(details.Payments) != 2 || details.Payments[0].RefundedAt.IsZero() || details.Payments[1].Outcome != order.RefundNotPayable {
			t.Errorf("%+v", details)
		}
		if o, err := lifecycle.BeginRefund(t.Context(), 10); err != nil || o.Status != order.Refunded {
			t.Errorf("%+v, %v", o, err)
		}
		fail.Unless(t, lifecycle.MarkRefunded(t.Context(), "pay_99"), order.ErrNotFound)
	})
}

func TestMoneyIsNeverDropped(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 2)
		placeUnpaid(t, d, 10, 100)
		less := receipt("less", 10)
		less.AmountCents--
		settles(t, d, less, order.Settlement{Outcome: order.RefundWrongAmount})
		wantState(t, d, 10, order.Unpaid)
		settles(t, d, receipt("nobody", 77), order.Settlement{Outcome: order.Unmatched})
		settles(t, d, receipt("nameless", 0), order.Settlement{Outcome: order.Unmatched})
		if n, cents, err := d.Lifecycle().UnmatchedPayments(t.Context()); err != nil || n != 2 || cents != 2*priceCents {
			t.Errorf("%d unmatched payments of %d, %v", n, cents, err)
		}
		for range 2 { // an operator gives it back at the provider, which says so
			fail.NowIf(t, d.Lifecycle().MarkRefunded(t.Context(), "nobody"))
		}
		if n, cents, err := d.Lifecycle().UnmatchedPayments(t.Context()); err != nil || n != 1 || cents != priceCents {
			t.Errorf("after one was given back: %d unmatched payments of %d, %v", n, cents, err)
		}
		fail.NowIf(t, placeOrder(t.Context(), d, newOrder(11, 1, 101), true))
		settles(t, d, receipt("gift", 11), order.Settlement{Outcome: order.RefundNotPayable})
		due, err := d.Lifecycle().DueRefunds(t.Context(), "", 10)
		if err != nil || len(due) != 2 || due[0].PaymentID != "gift" || due[1].AmountCents != priceCents-1 {
			t.Errorf("due: %+v, %v", due, err)
		}
	})
}

// In every order of the transactions, one of them wins.
func TestCancelPayAndExpireAtTheSameInstant(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) { sameInstant(t, d, 25) })
}

func sameInstant(t *testing.T, d *DB, rounds int) {
	lifecycle := d.Lifecycle()
	createVoucher(t, d, 1, int64(rounds))
	won, firsts := map[order.Status]int{}, map[string]int{}
	refunds := 0
	for i := range int64(rounds) {
		fail.NowIf(t, placeOrder(t.Context(), d, newUnpaid(i+1, 1, i+1, time.Now().Add(-time.Second)), true))
		var settled order.Settlement
		var expired int
		var notCancelled error
		allAtOnce(t, 3, func(who int) (err error) {
			switch who {
			case 0:
				_, notCancelled = lifecycle.Cancel(t.Context(), i+1)
				if !errors.Is(notCancelled, order.ErrNotCancellable) {
					return notCancelled
				}
			case 1:
				settled, err = lifecycle.MarkPaid(t.Context(), receipt(fmt.Sprint("pay_", i), i+1))
			case 2:
				expired, err = lifecycle.ExpireDue(t.Context(), 10)
			}
			return err
		})
		o, err := d.Orders().Order(t.Context(), i+1)
		fail.NowIf(t, err)
		won[o.Status]++
		// A payment that comes second takes a unit again, so it always ends as paid here.
		if o.Status != order.Paid || !settled.Outcome.Bought() {
			t.Errorf("order %d is %s, and its money %s", i+1, o.Status, settled.Outcome)
		}
		first := 0
		for who, is := range map[string]bool{"cancel": notCancelled == nil, "expiry": expired == 1, "payment": settled.Outcome == order.SettledPaid} {
			if is {
				firsts[who]++
				first++
			}
		}
		if first != 1 {
			t.Errorf("order %d: cancelled %v, expired %d, settled %s: %d of them won, want 1", i+1, notCancelled, expired, settled.Outcome, first)
		}
		if settled.Outcome.Refund() {
			refunds++
		}
	}
	a, err := d.Orders().Audit(t.Context(), 1)
	if err != nil || !a.Balanced() || a.Orders != int64(won[order.Paid]) {
		t.Errorf("%+v, %v", a, err)
	}
	t.Logf("%d rounds: first was %v, at the end %v, %d refunds", rounds, firsts, won, refunds)
}

// A database with orders in every state goes back to the schema of a program that knows no payment, and forward again.
func TestMigrateBackWithOrders(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		lifecycle := d.Lifecycle()
		createVoucher(t, d, 1, 10)
		for i := range int64(5) {
			placeUnpaid(t, d, i+1, i+1)
		}
		fail.NowIf(t, placeOrder(t.Context(), d, newOrder(6, 1, 6), true))
		for i := range int64(3) { // 1, 2 and 3 are paid, 4 is cancelled, 5 stays unpaid
			settles(t, d, receipt(fmt.Sprint("pay_", i), i+1), order.Settlement{Outcome: order.SettledPaid})
		}
		fail.NowIf(t, fail.Of(lifecycle.BeginRefund(t.Context(), 2)))
		fail.NowIf(t, fail.Of(lifecycle.BeginRefund(t.Context(), 3)))
		fail.NowIf(t, lifecycle.MarkRefunded(t.Context(), "pay_2"))
		fail.NowIf(t, fail.Of(lifecycle.Cancel(t.Context(), 4)))
		before, err := d.Orders().Audit(t.Context(), 1)
		fail.NowIf(t, err)

		const withoutPayment = 10
		fail.NowIf(t, fail.Of(d.migrate(t.Context(), func(m *migrate.Migrate) error { return m.Migrate(withoutPayment) })))
		rows := map[string]int{}
		readRows(t, d, "SELECT status FROM orders", func(status string) { rows[status]++ })
		if want := map[string]int{"confirmed": 3, "rejected": 3}; !reflect.DeepEqual(rows, want) {
			t.Errorf("back: %v, want %v", rows, want)
		}
		fail.NowIf(t, fail.Of(d.Migrate(t.Context())))
		if after, err := d.Orders().Audit(t.Context(), 1); err != nil || after != before || !after.Balanced() {
			t.Errorf("forward again: %+v, %v; want %+v", after, err, before)
		}
		placeUnpaid(t, d, 20, 20)
	})
}

func returned(orders ...order.Order) (all []contract.ReturnedOrder) {
	for _, o := range orders {
		all = append(all, contract.ReturnedOrder{Order: o})
	}
	return all
}

func readRows(t *testing.T, d *DB, query string, row func(text string)) {
	t.Helper()
	rows, err := d.readers.QueryContext(t.Context(), query)
	fail.NowIf(t, err)
	defer rows.Close()
	for rows.Next() {
		var text string
		fail.NowIf(t, rows.Scan(&text))
		row(text)
	}
	fail.NowIf(t, rows.Err())
}

// Under admission, stock that orders give back is booked for the gate under the epoch of that moment. Once the epoch is
// over, the gate needs no message: the next epoch begins with the stock.
func TestReturnsAreBookedForTheGate(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		store := d.AdmissionStore()
		v := newVoucher(1, 10)
		v.Policy.Buckets, v.PayWithin = 2, time.Hour
		openSale(t, d, v)
		var batch []contract.Accepted
		for i := range int64(6) {
			batch = append(batch, contract.Accepted{OrderID: 10 + i, VoucherID: 1, UserID: 100 + i, At: time.Now(), Epoch: 2, Seq: 1 + i, Bucket: int(i % 2), Key: order.KeyHash(i)})
		}
		for range 2 { // a batch that is delivered twice
			states, err := store.Persist(t.Context(), batch)
			if err != nil || len(states) != 6 || states[0] != order.Unpaid || states[5] != order.Unpaid {
				t.Fatalf("%v, %v", states, err)
			}
		}
		if details := wantState(t, d, 10, order.Unpaid); details.AmountCents != priceCents || time.Until(details.PayBy) < 50*time.Minute {
			t.Errorf("%+v", details)
		}
		due := func(want ...contract.Return) {
			t.Helper()
			got, _, err := store.Returns(t.Context(), contract.Return{}, 10)
			slices.SortFunc(got, func(a, b contract.Return) int { return a.Bucket - b.Bucket })
			if err != nil || len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
				t.Errorf("due: %+v, %v; want %+v", got, err, want)
			}
		}
		cancelOrders(t, d, 10, 11, 12)
		due(contract.Return{VoucherID: 1, Bucket: 0, Epoch: 2, Total: 2, Orders: returned(order.Order{ID: 10, UserID: 100}, order.Order{ID: 12, UserID: 102, Key: 2})},
			contract.Return{VoucherID: 1, Bucket: 1, Epoch: 2, Total: 1, Orders: returned(order.Order{ID: 11, UserID: 101, Key: 1})})
		fail.NowIf(t, store.Returned(t.Context(), contract.Return{VoucherID: 1, Bucket: 1, Epoch: 2, Orders: returned(order.Order{ID: 11})}, 77))
		st, err := store.EpochState(t.Context(), 1)
		if err != nil || st.Stock != 7 || st.Returned != 3 || st.Seq[1] != 77 {
			t.Errorf("%+v, %v", st, err)
		}
		states, err := store.Persist(t.Context(), batch[:1]) // a worker that was away for an hour
		if err != nil || states[0] != order.Cancelled {
			t.Errorf("%v, %v", states, err)
		}

		fail.NowIf(t, fail.Of(store.Close(t.Context(), 1)))
		cancelOrders(t, d, 13) // no epoch is open: there is nobody to tell
		due()
		if st, err = store.EpochState(t.Context(), 1); err != nil || st.Epoch != 3 || st.Returned != 4 {
			t.Errorf("closed: %+v, %v", st, err)
		}
		st, err = store.Open(t.Context(), 1, 3)
		if err != nil || st.Stock != 8 || st.Returned != 0 {
			t.Errorf("open again: %+v, %v", st, err)
		}
		cancelOrders(t, d, 14)
		due(contract.Return{VoucherID: 1, Bucket: 0, Epoch: 4, Total: 1, Orders: returned(order.Order{ID: 14, UserID: 104, Key: 4})})
		wantAudit(t, d, order.Audit{InitialStock: 10, Stock: 9, Orders: 1, DistinctUsers: 1, Returned: 1})
		// Late money waits for Redis under this flow: the stock that can be sold is there.
		settles(t, d, receipt("late", 14), order.Settlement{Outcome: order.LateUndecided})
	})
}
