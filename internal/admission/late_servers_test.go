package admission_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// cancelled places an order of a user and cancels it. Redis is told.
func (s *shop) cancelled(v *voucher.Voucher, user int64) int64 {
	s.t.Helper()
	id := s.bought(v, user)
	s.cancel(id)
	s.returned()
	return id
}

// money receives the price of an order, which is over.
func (s *shop) money(id int64) {
	s.t.Helper()
	got, err := s.lifecycle.MarkPaid(s.t.Context(), order.Receipt{PaymentID: fmt.Sprint("pay_", id), OrderID: id, AmountCents: cents, At: time.Now()})
	if err != nil || got.Outcome != order.LateUndecided {
		s.t.Fatalf("%+v, %v", got, err)
	}
}

// wants compares the state of an order and what became of its money.
func (s *shop) wants(id int64, state order.Status, outcome order.Outcome) {
	s.t.Helper()
	o, err := s.db.Orders().Order(s.t.Context(), id)
	fail.NowIf(s.t, err)
	d, err := s.lifecycle.Details(s.t.Context(), o)
	fail.NowIf(s.t, err)
	if o.Status != state || len(d.Payments) != 1 || d.Payments[0].Outcome != outcome || d.Payments[0].RefundDue != outcome.Refund() {
		s.t.Errorf("order %d is %s with %+v, want %s and %s", id, o.Status, d.Payments, state, outcome)
	}
}

// Late money takes a unit from Redis, of whichever bucket, if there is one and the user has no other order. The order
// is like any other that is paid: it can be refunded, and its user may order again then.
func TestLateMoneyTakesAVoucherFromRedis(t *testing.T) {
	t.Parallel()
	for _, buckets := range []int{1, 3} {
		t.Run(fmt.Sprint(buckets, " buckets"), func(t *testing.T) {
			s := newShop(t, testkit.SQLite(t))
			v := s.create(admittedVoucher, 2, buckets)
			first, second, third := s.cancelled(v, 1), s.cancelled(v, 2), s.cancelled(v, 3)
			s.money(first)
			s.decided(v)
			s.wants(first, order.Paid, order.SettledLate)
			fail.Unless(t, fail.Of(s.place(t.Context(), v, 1)), order.ErrAlreadyOrdered, "a second order")
			again := s.bought(v, 2)
			s.money(second)
			s.money(third)
			s.decided(v)
			s.wants(second, order.Cancelled, order.RefundOtherOrder)
			s.wants(third, order.Cancelled, order.RefundNoStock)
			s.balanced(v)

			fail.NowIf(t, fail.Of(s.lifecycle.BeginRefund(t.Context(), first)))
			s.returned()
			s.balanced(v)
			fail.Unless(t, fail.Of(s.place(t.Context(), v, 1)), nil, "after the refund")
			s.cancel(again)
			s.returned()
			if a := s.balanced(v); a.Orders != 1 || a.Gate.Stock != 1 {
				t.Errorf("%+v", a)
			}
		})
	}
}

// The money waits until Redis was told of the order's first voucher. A call that tells Redis again, late, does not
// remove the second reservation.
func TestLateMoneyWaitsForTheFirstVoucher(t *testing.T) {
	t.Parallel()
	s := newShop(t, testkit.SQLite(t))
	v := s.create(admittedVoucher, 1, 1)
	id := s.bought(v, 7)
	s.cancel(id)
	s.money(id)
	fail.NowIf(t, s.late.Round(t.Context()))
	s.wants(id, order.Cancelled, order.LateUndecided)
	due, _, err := s.db.AdmissionStore().Returns(t.Context(), contract.Return{}, 10)
	fail.NowIf(t, err)
	s.returned()
	s.decided(v)
	s.wants(id, order.Paid, order.SettledLate)
	server, keys := ledger.New(s.client, ledger.Options{}), ledger.KeysOf(s.prefix, v.ID, 0)
	if got, err := server.Return(t.Context(), keys, due[0]); err != nil || got.Amount != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	fail.Unequal(t, s.client.HGet(t.Context(), keys.Users, "7").Val(), ledger.ReservedLate(id, 0), "user 7 holds")
	s.balanced(v)
}

// Wherever what decides stops, and whatever the servers have forgotten, the money pays for one unit or goes back.
func TestLateMoneyWhateverStops(t *testing.T) {
	t.Parallel()
	type stop struct {
		*shop
		v    *voucher.Voucher
		id   int64
		keys ledger.Keys
	}
	paid, refunded := order.SettledLate, order.RefundNoStock
	for name, c := range map[string]struct {
		// then is what happens after Redis has reserved a unit, while no worker runs.
		then func(s *stop)
		want order.Outcome
	}{
		"the process dies": {func(*stop) {}, paid},
		"several processes ask again": {func(s *stop) {
			other := *s.shop
			other.start()
			other.stopWorkers()
			var all sync.WaitGroup
			for _, p := range []*shop{s.shop, &other, s.shop, &other} {
				all.Go(func() { _ = p.late.Round(s.t.Context()) }) // Redis may be too slow, on a busy machine
			}
			all.Wait()
			if n := s.client.XLen(s.t.Context(), s.keys.Orders).Val(); n > 1 {
				s.t.Errorf("%d entries", n)
			}
		}, paid},
		"Redis loses everything": {func(s *stop) { s.loseAll() }, paid},
		"the entry is lost":      {func(s *stop) { fail.NowIf(s.t, s.client.Del(s.t.Context(), s.keys.Orders).Err()) }, paid},
		"the voucher is closed": {func(s *stop) {
			_, err := s.db.AdmissionStore().Close(s.t.Context(), s.v.ID)
			fail.NowIf(s.t, err)
		}, paid},
		"another process refunds": {func(s *stop) {
			all, err := s.db.AdmissionStore().LateMoney(s.t.Context(), "", 10)
			fail.NowIf(s.t, err)
			fail.NowIf(s.t, s.db.AdmissionStore().RefundLate(s.t.Context(), all[0], refunded))
		}, refunded},
		"the sale ends": {func(s *stop) {
			fail.NowIf(s.t, s.client.HSet(s.t.Context(), s.keys.Meta, ledger.FieldEnd, 1).Err())
		}, paid},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stop{shop: newShop(t, testkit.SQLite(t))}
			s.v, s.keys = s.create(admittedVoucher, 1, 1), ledger.KeysOf(s.prefix, admittedVoucher, 0)
			s.id = s.cancelled(s.v, 7)
			s.stopWorkers()
			s.money(s.id)
			testkit.Until(t, "a voucher is reserved", func() bool { return s.late.Round(t.Context()) == nil })
			s.wants(s.id, order.Cancelled, order.LateUndecided)
			fail.NowUnequal(t, s.client.HGet(t.Context(), s.keys.Users, "7").Val(), ledger.ReservedLate(s.id, 0), "user 7 holds")
			if a, err := s.gate.Audit(t.Context(), s.v.ID); err != nil || a.Stock != 0 || a.Pending != 1 {
				t.Fatalf("%+v, %v", a, err)
			}
			c.then(s)

			next := *s.shop
			next.start()
			testkit.Until(t, "the money is decided", func() bool {
				next.gate.Check(t.Context())
				_ = next.gate.Open(t.Context(), s.v)
				_ = next.late.Round(t.Context())
				left, err := next.db.AdmissionStore().LateMoney(t.Context(), "", 10)
				fail.NowIf(t, err)
				a, err := next.gate.Audit(t.Context(), s.v.ID)
				return len(left) == 0 && err == nil && a.Pending == 0
			})
			state := order.Paid
			if c.want == refunded {
				state = order.Cancelled
			}
			next.wants(s.id, state, c.want)
			next.settleDown(s.v)
			next.balanced(s.v)
		})
	}
}

// The rule is that of the locked flow: the end of the sale does not matter, nor that Redis has forgotten it.
func TestLateMoneyAfterTheSale(t *testing.T) {
	t.Parallel()
	s := newShop(t, testkit.SQLite(t))
	v := s.create(admittedVoucher, 2, 2)
	first, second, third := s.cancelled(v, 1), s.cancelled(v, 2), s.cancelled(v, 3)
	s.ended(v, time.Minute)
	s.money(first)
	testkit.Until(t, "the money is decided", func() bool {
		s.gate.Check(t.Context())
		_ = s.late.Round(t.Context())
		left, err := s.db.AdmissionStore().LateMoney(t.Context(), "", 10)
		fail.NowIf(t, err)
		return len(left) == 0
	})
	s.wants(first, order.Paid, order.SettledLate)

	store := s.db.AdmissionStore()
	st, err := store.Close(t.Context(), v.ID)
	fail.NowIf(t, err)
	fail.NowIf(t, store.Forget(t.Context(), v.ID, st.Epoch, time.Now()))
	s.loseAll()
	for _, id := range []int64{second, third} {
		s.money(id)
		testkit.Until(t, "the money is decided", func() bool {
			_ = s.late.Round(t.Context())
			left, err := store.LateMoney(t.Context(), "", 10)
			fail.NowIf(t, err)
			return len(left) == 0
		})
	}
	s.wants(second, order.Paid, order.SettledLate)
	s.wants(third, order.Cancelled, order.RefundNoStock)
	if a, err := s.db.Orders().Audit(t.Context(), v.ID); err != nil || !a.Balanced() || a.Orders != 2 {
		t.Errorf("%+v, %v", a, err)
	}
}

// Hours after the sale no worker reads the voucher's stream any more, until money comes.
func TestLateMoneyLongAfterTheSale(t *testing.T) {
	t.Parallel()
	s := newShop(t, testkit.SQLite(t))
	v := s.create(admittedVoucher, 2, 2)
	id := s.cancelled(v, 1)
	s.ended(v, 3*time.Hour)
	s.stopWorkers()
	s.start()
	s.money(id)
	s.decided(v)
	s.wants(id, order.Paid, order.SettledLate)
}

// ended makes the sale of a voucher one that ended some time ago.
func (s *shop) ended(v *voucher.Voucher, ago time.Duration) {
	s.t.Helper()
	v.EndAt = time.Now().UTC().Truncate(time.Microsecond).Add(-ago)
	v.BeginAt = v.EndAt.Add(-time.Hour)
	s.exec("UPDATE vouchers SET begin_at = ?, end_at = ? WHERE id = ?", v.BeginAt, v.EndAt, v.ID)
}

func (s *shop) exec(statement string, args ...any) {
	s.t.Helper()
	_, err := s.db.Pools()["writers"].ExecContext(s.t.Context(), statement, args...)
	fail.NowIf(s.t, err)
}

// Hours after a sale an order is still found that the database has not taken: it refuses writes for a reason of its
// own, and a process that starts then has never seen the sale.
func TestPendingOrderLongAfterTheSale(t *testing.T) {
	t.Parallel()
	s := newShop(t, testkit.SQLite(t))
	v := s.create(admittedVoucher, 2, 2)
	s.stopWorkers()
	o := order.Order{ID: 7, VoucherID: v.ID, UserID: 1}
	fail.NowIf(t, s.gate.Admit(t.Context(), v, o))
	s.exec("CREATE TRIGGER full BEFORE INSERT ON orders BEGIN SELECT RAISE(ABORT, 'no space left'); END")
	s.ended(v, 3*time.Hour)
	s.start()
	testkit.Until(t, "the process is ready to say", func() bool {
		found, err := s.gate.Lookup(t.Context(), o.UserID, o.ID)
		if err == nil && found.Status == order.Pending {
			return true
		}
		fail.NowUnless(t, err, order.ErrUnavailable, "%+v", found)
		return false
	})
	if all, err := s.gate.OrdersOf(t.Context(), o.UserID); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	s.exec("DROP TRIGGER full")
	testkit.Until(t, "the order is persisted", func() bool {
		_, err := s.db.Orders().Order(t.Context(), o.ID)
		return err == nil
	})
}
