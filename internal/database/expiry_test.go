package database

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit/fail"
)

// Several processes expire at the same time: each due order once, and no other.
func TestExpiry(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		const vouchers, perVoucher, paid = 3, 40, 5
		for v := range int64(vouchers) {
			createVoucher(t, d, v+1, perVoucher+1)
			for i := range int64(perVoucher + 1) {
				o := newUnpaid((v+1)*1000+i, v+1, i+1, time.Now().Add(-time.Second))
				if i == perVoucher {
					o.PayBy = time.Now().Add(time.Hour)
				}
				fail.NowIf(t, placeOrder(t.Context(), d, o, true))
			}
			for i := range int64(paid) {
				settles(t, d, receipt(fmt.Sprintf("pay_%d_%d", v, i), (v+1)*1000+i), order.Settlement{Outcome: order.SettledPaid})
			}
		}
		expired := make([]int, 4)
		errs := runAtOnce(len(expired), func(i int) error {
			for {
				n, err := d.Lifecycle().ExpireDue(t.Context(), 30)
				if expired[i] += n; err != nil {
					return err
				}
				if due, err := d.Lifecycle().due(t.Context(), 0, 1); err != nil || len(due) == 0 {
					return err
				}
			}
		})
		all := 0
		for i, err := range errs {
			fail.NowIf(t, err)
			all += expired[i]
		}
		fail.Unequal(t, all, vouchers*(perVoucher-paid), "orders were expired (%v)", expired)
		for v := range int64(vouchers) {
			a, err := d.Orders().Audit(t.Context(), v+1)
			if want := (order.Audit{InitialStock: perVoucher + 1, Stock: perVoucher - paid, Orders: paid + 1, DistinctUsers: paid + 1}); err != nil || a != want {
				t.Errorf("voucher %d: %+v, %v; want %+v", v+1, a, err, want)
			}
		}
		wantState(t, d, 1000+paid, order.Unpaid, order.Expired)
	})
}

// Orders of a voucher whose row cannot be updated do not expire. Those of other vouchers do, whatever their ids, and
// even if the one has more due orders than are read at a time.
func TestExpiryPassesVouchersThatFail(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		const stuck, limit = 7, 3
		place := func(id, voucher, user int64, due time.Duration) {
			fail.NowIf(t, placeOrder(t.Context(), d, newUnpaid(id, voucher, user, time.Now().Add(-due)), true))
		}
		for v := range int64(3) {
			createVoucher(t, d, v+1, 10)
			place(200+v, v+1, 1, time.Second)
		}
		for user := range int64(stuck - 1) { // due before all others
			place(100+user, 1, 2+user, time.Minute)
		}
		trigger := "CREATE TRIGGER refuses BEFORE UPDATE ON vouchers FOR EACH ROW BEGIN IF OLD.id = 1 THEN SIGNAL SQLSTATE '45000'; END IF; END"
		if d.name == "sqlite" {
			trigger = "CREATE TRIGGER refuses BEFORE UPDATE ON vouchers WHEN OLD.id = 1 BEGIN SELECT RAISE(ABORT, 'refused'); END"
		}
		fail.NowIf(t, fail.Of(d.writers.ExecContext(t.Context(), trigger)))
		n, err := d.Lifecycle().ExpireDue(t.Context(), limit)
		if n != 2 || err == nil || !strings.Contains(err.Error(), "voucher 1: ") {
			t.Errorf("%d orders expired, %v; want the 2 of the other vouchers, and an error that names voucher 1", n, err)
		}
		wantState(t, d, 200, order.Unpaid)
		wantState(t, d, 201, order.Unpaid, order.Expired)
		wantState(t, d, 202, order.Unpaid, order.Expired)
	})
}
