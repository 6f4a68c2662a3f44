package database

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// lateSale is a voucher that is sold by admission, in two buckets, with its epoch open.
type lateSale struct {
	*testing.T
	d     *DB
	store *AdmissionStore
	epoch int64
}

func openLateSale(t *testing.T, d *DB, stock int64) *lateSale {
	t.Helper()
	v := newVoucher(1, stock)
	v.Policy.Buckets, v.PayWithin = 2, time.Hour
	openSale(t, d, v)
	return &lateSale{T: t, d: d, store: d.AdmissionStore(), epoch: firstEpoch + 1}
}

// open opens the epoch after a closed one.
func (s *lateSale) open() {
	s.Helper()
	st, err := s.store.Open(s.Context(), 1, s.epoch)
	fail.NowIf(s.T, err)
	s.epoch = st.Epoch
}

// close closes the epoch.
func (s *lateSale) close() {
	s.Helper()
	st, err := s.store.Close(s.Context(), 1)
	fail.NowIf(s.T, err)
	s.epoch = st.Epoch
}

// reserved is an order of user 100 + id that the gate has accepted, or has accepted again.
func (s *lateSale) reserved(id int64, late bool) contract.Accepted {
	return contract.Accepted{
		OrderID: id, VoucherID: 1, UserID: 100 + id, At: newOrder(0, 0, 0).CreatedAt, Epoch: s.epoch &^ 1, Seq: id, Bucket: int(id % 2), Key: order.KeyHash(id), Late: late,
	}
}

// cancelled places an order and cancels it, and money comes for it. Redis was told of the unit that it gave back.
func (s *lateSale) cancelled(id int64) contract.LateMoney {
	s.Helper()
	s.persists(order.Unpaid, s.reserved(id, false))
	cancelOrders(s, s.d, id)
	settles(s, s.d, receipt(fmt.Sprint("pay_", id), id), order.Settlement{Outcome: order.LateUndecided})
	if s.undecided(fmt.Sprint("pay_", id)) {
		s.Error("listed before Redis was told")
	}
	due, _, err := s.store.Returns(s.Context(), contract.Return{}, 10)
	fail.NowIf(s.T, err)
	for _, r := range due {
		fail.NowIf(s.T, s.store.Returned(s.Context(), r, 1000))
	}
	o := order.Order{ID: id, VoucherID: 1, UserID: 100 + id, Status: order.Cancelled, Key: order.KeyHash(id)}
	m := contract.LateMoney{PaymentID: fmt.Sprint("pay_", id), Order: o}
	if !s.undecided(m.PaymentID) {
		s.Error("not listed")
	}
	return m
}

func (s *lateSale) undecided(payment string) bool {
	s.Helper()
	all, err := s.store.LateMoney(s.Context(), "", 10)
	fail.NowIf(s.T, err)
	return slices.ContainsFunc(all, func(m contract.LateMoney) bool { return m.PaymentID == payment })
}

func (s *lateSale) wantUndecided(want ...contract.LateMoney) {
	s.Helper()
	got, err := s.store.LateMoney(s.Context(), "", 10)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		s.Errorf("undecided: %+v, %v; want %+v", got, err, want)
	}
}

func (s *lateSale) persists(want order.Status, orders ...contract.Accepted) {
	s.Helper()
	states, err := s.store.Persist(s.Context(), orders)
	if err != nil || len(states) != len(orders) || states[0] != want {
		s.Fatalf("%v, %v; want %s", states, err, want)
	}
}

// wantMoney compares what became of the money of an order.
func (s *lateSale) wantMoney(id int64, outcome order.Outcome, refundDue bool) {
	s.Helper()
	d, err := s.d.Lifecycle().Details(s.Context(), order.Order{ID: id, VoucherID: 1})
	if err != nil || len(d.Payments) != 1 || d.Payments[0].Outcome != outcome || d.Payments[0].RefundDue != refundDue {
		s.Errorf("the money of order %d: %+v, %v; want %s", id, d.Payments, err, outcome)
	}
}

// bought is how many payments of an order have paid for it.
func bought(of order.Details) (n int) {
	for _, p := range of.Payments {
		if p.Outcome.Bought() {
			n++
		}
	}
	return n
}

// The row of the voucher is gone for a while, as on a replica that lags and took over. Nothing is decided about its
// orders until it is back, and then they are sold for what they cost, whether or not this process knows the price.
func TestTheVoucherIsMissing(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		s := openLateSale(t, d, 10)
		money := s.cancelled(1)
		wantMissing := func(err error) {
			fail.Unless(t, err, order.ErrUnavailable)
			fail.Unless(t, err, order.ErrVoucherMissing)
		}
		for id, known := range map[int64]bool{2: true, 3: false} {
			if !known {
				d.prices.known = nil
			}
			fail.NowIf(t, d.rows.Exec("UPDATE vouchers SET id = 77 WHERE id = 1").Error)
			for range 2 {
				wantMissing(fail.Of(s.store.Persist(t.Context(), []contract.Accepted{s.reserved(id, false)})))
			}
			wantMissing(fail.Of(s.store.Reject(t.Context(), s.reserved(1, true))))
			s.wantUndecided(money)
			fail.NowIf(t, d.rows.Exec("UPDATE vouchers SET id = 1 WHERE id = 77").Error)
			s.persists(order.Unpaid, s.reserved(id, false))
		}
		s.persists(order.Paid, s.reserved(1, true))
		wantNoOpenTransaction(t, d)
	})
}

// A voucher that the gate reserved for late money is written once, in a batch with other orders. The order can then be
// refunded like any other.
func TestLateMoneyTakesAVoucherThatTheGateReserved(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		s := openLateSale(t, d, 3)
		s.cancelled(10)
		late := s.reserved(10, true)
		// The entry of the first reservation, delivered again, takes nothing.
		s.persists(order.Cancelled, s.reserved(10, false))
		for range 2 {
			s.persists(order.Paid, late, s.reserved(11, false), late, s.reserved(10, false))
		}
		wantState(t, d, 10, order.Unpaid, order.Cancelled, order.Paid)
		s.wantMoney(10, order.SettledLate, false)
		s.wantUndecided()
		wantAudit(t, d, order.Audit{InitialStock: 3, Stock: 1, Orders: 2, DistinctUsers: 2, Returned: 1})
		rejects(t, d, order.Paid, late)
		settles(t, d, receipt("pay_10", 10), order.Settlement{Outcome: order.SettledLate, Repeated: true})
		settles(t, d, receipt("second", 10), order.Settlement{Outcome: order.RefundNotPayable})

		fail.NowIf(t, fail.Of(d.Lifecycle().BeginRefund(t.Context(), 10)))
		due, _, err := s.store.Returns(t.Context(), contract.Return{}, 10)
		if err != nil || len(due) != 1 || due[0].Total != 2 || len(due[0].Orders) != 1 || !due[0].Orders[0].Late {
			t.Errorf("due: %+v, %v", due, err)
		}
		s.persists(order.Refunding, late) // delivered once more
		wantAudit(t, d, order.Audit{InitialStock: 3, Stock: 2, Orders: 1, DistinctUsers: 1, Returned: 2})
	})
}

// A reservation for which there is no undecided money is rejected, so that it goes back. Money is decided once.
func TestLateMoneyIsDecidedOnce(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		s := openLateSale(t, d, 4)
		m := s.cancelled(10)
		for range 2 {
			fail.NowIf(t, s.store.RefundLate(t.Context(), m, order.RefundNoStock))
		}
		s.persists(order.Rejected, s.reserved(10, true))
		fail.NowIf(t, s.store.RefundLate(t.Context(), m, order.RefundOtherOrder))
		s.wantMoney(10, order.RefundNoStock, true)
		settles(t, d, receipt("more", 10), order.Settlement{Outcome: order.RefundNoStock})

		// The worker rejects what the gate reserved: for want of a voucher, or because of another order.
		s.cancelled(11)
		for range 2 {
			rejects(t, d, order.Rejected, s.reserved(11, true))
		}
		s.persists(order.Rejected, s.reserved(11, true))
		s.wantMoney(11, order.RefundNoStock, true)
		s.cancelled(12)
		other := s.reserved(13, false)
		other.UserID = 112
		s.persists(order.Unpaid, other)
		fail.Unless(t, fail.Of(s.store.Persist(t.Context(), []contract.Accepted{s.reserved(12, true)})), order.ErrAlreadyOrdered)
		fail.NowIf(t, fail.Of(s.store.Reject(t.Context(), s.reserved(12, true))))
		s.wantMoney(12, order.RefundOtherOrder, true)
		s.wantUndecided()

		// The provider gives the money back by itself.
		s.cancelled(14)
		for range 2 {
			fail.NowIf(t, d.Lifecycle().MarkRefunded(t.Context(), "pay_14"))
		}
		s.persists(order.Rejected, s.reserved(14, true))
		s.wantMoney(14, order.RefundNotPayable, false)
		settles(t, d, receipt("more of 14", 14), order.Settlement{Outcome: order.RefundNotPayable})
		s.persists(order.Rejected, s.reserved(14, true))
		wantAudit(t, d, order.Audit{InitialStock: 4, Stock: 3, Orders: 1, DistinctUsers: 1, Returned: 4})
	})
}

// While an epoch is drained its reservations are still written. One of an epoch that is over decides nothing: the money
// is decided again, under the epoch that is open.
func TestLateMoneyOutlivesAnEpoch(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		s := openLateSale(t, d, 3)
		s.cancelled(10)
		m := s.cancelled(11)
		s.close()
		s.persists(order.Paid, s.reserved(10, true))
		stale := s.reserved(11, true)
		stale.Epoch = 2
		s.open()
		fail.Unless(t, fail.Of(s.store.Persist(t.Context(), []contract.Accepted{stale})), order.ErrStaleEpoch)
		rejects(t, d, order.Rejected, stale)
		s.wantUndecided(m)
		s.persists(order.Paid, s.reserved(11, true))
		wantAudit(t, d, order.Audit{InitialStock: 3, Stock: 1, Orders: 2, DistinctUsers: 2})
	})
}

// Of several payments for one order, one pays for it.
func TestLateMoneyOfSeveralPayments(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		s := openLateSale(t, d, 2)
		s.cancelled(10)
		settles(t, d, receipt("twice", 10), order.Settlement{Outcome: order.LateUndecided})
		s.persists(order.Paid, s.reserved(10, true))
		left, err := s.store.LateMoney(t.Context(), "", 10)
		if err != nil || len(left) != 1 || left[0].Order.Status != order.Paid {
			t.Fatalf("%+v, %v", left, err)
		}
		fail.NowIf(t, s.store.RefundLate(t.Context(), left[0], order.RefundNotPayable))
		details, err := d.Lifecycle().Details(t.Context(), left[0].Order)
		fail.NowIf(t, err)
		if bought(details) != 1 || len(details.Payments) != 2 {
			t.Errorf("%+v", details.Payments)
		}
	})
}

// Once Redis has forgotten a voucher, the database decides alone, until the voucher is opened again.
func TestLateMoneyOfAForgottenVoucher(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		s := openLateSale(t, d, 1)
		first := s.cancelled(10)
		fail.Unless(t, s.store.PayForgotten(t.Context(), first), order.ErrConflict) // it is on sale
		s.persists(order.Unpaid, s.reserved(11, false))
		cancelOrders(t, d, 11)
		settles(t, d, receipt("pay_11", 11), order.Settlement{Outcome: order.LateUndecided})
		second := first
		second.PaymentID, second.Order.ID, second.Order.UserID = "pay_11", 11, 111
		s.close()
		fail.Unless(t, s.store.PayForgotten(t.Context(), first), order.ErrConflict) // it is closed, not forgotten
		fail.NowIf(t, s.store.Forget(t.Context(), 1, s.epoch, time.Now().AddDate(1, 0, 0)))
		for range 2 {
			fail.NowIf(t, s.store.PayForgotten(t.Context(), first))
		}
		wantState(t, d, 10, order.Unpaid, order.Cancelled, order.Paid)
		s.wantMoney(10, order.SettledLate, false)
		fail.Unless(t, s.store.PayForgotten(t.Context(), second), voucher.ErrSoldOut)
		s.wantMoney(11, order.LateUndecided, false)
		wantAudit(t, d, order.Audit{InitialStock: 1, Orders: 1, DistinctUsers: 1, Returned: 2})
	})
}

// Several processes decide at the same instant, also while more money arrives: the money has paid for a unit or goes
// back, and the stock is right. A worker that was told that a late order is rejected gives its reservation back, so no
// other one is told otherwise afterwards.
func TestLateMoneyAtTheSameInstant(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		const rounds = 18
		s := openLateSale(t, d, rounds)
		outcomes := map[order.Status]int{}
		for id := range int64(rounds) {
			m, a, more := s.cancelled(100+id), s.reserved(100+id, true), receipt(fmt.Sprint("more_", id), 100+id)
			states := make([]order.Status, 3)
			allAtOnce(t, 5, func(who int) (err error) {
				var all []order.Status
				switch {
				case who < 2:
					if all, err = s.store.Persist(t.Context(), []contract.Accepted{a}); err == nil {
						states[who] = all[0]
					}
				case who == 2 && id%3 > 0:
					states[who], err = s.store.Reject(t.Context(), a)
				case who == 3:
					err = s.store.RefundLate(t.Context(), m, order.RefundNoStock)
				case who == 4 && id%2 > 0:
					_, err = d.Lifecycle().MarkPaid(t.Context(), more)
				}
				return err
			})
			final, err := s.store.Persist(t.Context(), []contract.Accepted{a})
			fail.NowIf(t, err)
			outcomes[final[0]]++
			if slices.Contains(states, order.Rejected) && final[0] != order.Rejected {
				t.Errorf("order %d was rejected, and is %s", a.OrderID, final[0])
			}
			switch details, err := d.Lifecycle().Details(t.Context(), order.Order{ID: a.OrderID, VoucherID: 1}); {
			case err != nil:
				t.Error(err)
			case final[0] != order.Paid && final[0] != order.Rejected:
				t.Errorf("order %d is %s", a.OrderID, final[0])
			default:
				if n := bought(details); (n == 1) != (final[0] == order.Paid) || n > 1 {
					t.Errorf("order %d is %s: %+v", a.OrderID, final[0], details.Payments)
				}
			}
			left, err := s.store.LateMoney(t.Context(), "", 10)
			fail.NowIf(t, err)
			for _, m := range left {
				if final[0] == order.Rejected {
					t.Errorf("order %d is rejected, and payment %s undecided", a.OrderID, m.PaymentID)
				}
				fail.NowIf(t, s.store.RefundLate(t.Context(), m, order.RefundNotPayable))
			}
		}
		if a, err := d.Orders().Audit(t.Context(), 1); err != nil || !a.Balanced() || a.Orders != int64(outcomes[order.Paid]) {
			t.Errorf("%+v, %v; %v", a, err, outcomes)
		}
		t.Logf("%v", outcomes)
	})
}

// Money that arrives late takes a unit if there is one and the user has no other order.
func TestLatePayment(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		lifecycle := d.Lifecycle()
		createVoucher(t, d, 1, 1)
		placeUnpaid(t, d, 10, 100)
		cancelOrders(t, d, 10)
		settles(t, d, receipt("late", 10), order.Settlement{Outcome: order.SettledLate})
		wantState(t, d, 10, order.Unpaid, order.Cancelled, order.Paid)
		wantAudit(t, d, order.Audit{InitialStock: 1, Orders: 1, DistinctUsers: 1})
		fail.NowIf(t, fail.Of(lifecycle.BeginRefund(t.Context(), 10)))

		placeUnpaid(t, d, 11, 101)
		cancelOrders(t, d, 11)
		placeUnpaid(t, d, 12, 102) // the last unit
		settles(t, d, receipt("too late", 11), order.Settlement{Outcome: order.RefundNoStock})
		settles(t, d, receipt("too late", 11), order.Settlement{Outcome: order.RefundNoStock, Repeated: true})
		cancelOrders(t, d, 12)
		placeUnpaid(t, d, 13, 102)
		settles(t, d, receipt("other", 12), order.Settlement{Outcome: order.RefundOtherOrder})
		wantAudit(t, d, order.Audit{InitialStock: 1, Orders: 1, DistinctUsers: 1})
		due, err := lifecycle.DueRefunds(t.Context(), "late", 10)
		if err != nil || len(due) != 2 || due[0].PaymentID != "other" || due[1].PaymentID != "too late" {
			t.Errorf("due: %+v, %v", due, err)
		}
	})
}

// Once late money of an order was refused, further money is refused too, under both flows, also if there is a voucher
// by then. Money of another amount refuses nothing.
func TestMoneyAfterLateMoneyWasRefused(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		t.Run("locked", func(t *testing.T) {
			createVoucher(t, d, 2, 1)
			place := func(id int64) {
				fail.NowIf(t, placeOrder(t.Context(), d, newUnpaid(id, 2, 100+id, time.Now().Add(time.Hour)), true))
			}
			place(20)
			cancelOrders(t, d, 20)
			place(21)
			settles(t, d, receipt("20 first", 20), order.Settlement{Outcome: order.RefundNoStock})
			cancelOrders(t, d, 21)
			settles(t, d, receipt("20 second", 20), order.Settlement{Outcome: order.RefundNoStock})
			wantState(t, d, 20, order.Unpaid, order.Cancelled)

			wrong := receipt("21 wrong", 21)
			wrong.AmountCents++
			settles(t, d, wrong, order.Settlement{Outcome: order.RefundWrongAmount})
			settles(t, d, receipt("21 right", 21), order.Settlement{Outcome: order.SettledLate})
		})
		t.Run("admission", func(t *testing.T) {
			s := openLateSale(t, d, 1)
			m := s.cancelled(10)
			fail.NowIf(t, s.store.RefundLate(t.Context(), m, order.RefundNoStock))
			settles(t, d, receipt("10 second", 10), order.Settlement{Outcome: order.RefundNoStock})
			wantState(t, d, 10, order.Unpaid, order.Cancelled)

			s.persists(order.Unpaid, s.reserved(11, false))
			cancelOrders(t, d, 11)
			wrong := receipt("11 wrong", 11)
			wrong.AmountCents++
			settles(t, d, wrong, order.Settlement{Outcome: order.RefundWrongAmount})
			settles(t, d, receipt("11 right", 11), order.Settlement{Outcome: order.LateUndecided})
		})
	})
}
