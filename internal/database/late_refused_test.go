package database

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"seckill/internal/order"
)

// A worker that was told that a late order is rejected gives its reservation back. No other worker is told otherwise
// afterwards, also if more money arrives at the same instant.
func TestRefusalOfLateMoneyIsFinal(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		const rounds = 40
		s := openLateSale(t, d, rounds)
		outcomes := map[order.Status]int{}
		for id := range int64(rounds) {
			m := s.cancelled(100 + id)
			a, more := s.reserved(100+id, true), receipt(fmt.Sprint("more_", id), 100+id)
			states := make([][]order.Status, 2)
			errs := runAtOnce(4, func(who int) (err error) {
				switch who {
				case 0, 1:
					states[who], err = s.store.Persist(t.Context(), []order.Accepted{a})
				case 2:
					err = s.store.RefundLate(t.Context(), m, order.RefundNoStock)
				case 3:
					_, err = d.Life().MarkPaid(t.Context(), more)
				}
				return err
			})
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			final, err := s.store.Persist(t.Context(), []order.Accepted{a})
			wantErr(t, err)
			if slices.Contains([]order.Status{states[0][0], states[1][0]}, order.Rejected) && final[0] != order.Rejected {
				t.Errorf("order %d was rejected, and is %s", a.OrderID, final[0])
			}
			outcomes[final[0]]++
			left, err := s.store.LateMoney(t.Context(), "", 10)
			wantErr(t, err)
			for _, m := range left {
				if final[0] == order.Rejected {
					t.Errorf("order %d is rejected, and payment %s undecided", a.OrderID, m.PaymentID)
				}
				wantErr(t, s.store.RefundLate(t.Context(), m, order.RefundNotPayable))
			}
		}
		t.Logf("%v", outcomes)
	})
}

// Once late money of an order was refused, further money is refused too, under both flows, also if there is a voucher
// by then. Money of another amount refuses nothing.
func TestMoneyAfterLateMoneyWasRefused(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		t.Run("locked", func(t *testing.T) {
			createVoucher(t, d, 2, 1)
			cancel := func(id int64) {
				_, err := d.Life().Cancel(t.Context(), id)
				wantErr(t, err)
			}
			place := func(id int64) {
				wantErr(t, placeOrder(t.Context(), d, newUnpaid(id, 2, 100+id, time.Now().Add(time.Hour)), true))
			}
			place(20)
			cancel(20)
			place(21)
			settles(t, d, receipt("20 first", 20), order.Settlement{Outcome: order.RefundNoStock})
			cancel(21)
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
			wantErr(t, s.store.RefundLate(t.Context(), m, order.RefundNoStock))
			settles(t, d, receipt("10 second", 10), order.Settlement{Outcome: order.RefundNoStock})
			wantState(t, d, 10, order.Unpaid, order.Cancelled)

			s.persists(order.Unpaid, s.reserved(11, false))
			_, err := d.Life().Cancel(t.Context(), 11)
			wantErr(t, err)
			wrong := receipt("11 wrong", 11)
			wrong.AmountCents++
			settles(t, d, wrong, order.Settlement{Outcome: order.RefundWrongAmount})
			settles(t, d, receipt("11 right", 11), order.Settlement{Outcome: order.LateUndecided})
		})
	})
}
