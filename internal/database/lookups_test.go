package database

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit/fail"
)

// A payment is due for a look-up from its creation until its outcome is known, and one of several processes gets it.
func TestLookups(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 3)
		later := time.Now().Add(24 * time.Hour)
		for id := int64(10); id < 13; id++ {
			placeUnpaid(t, d, id, id)
		}
		wantDue(t, d, later)
		for id, name := range map[int64]string{10: "pay_a", 11: "pay_b"} {
			p, err := d.Lifecycle().PaymentOf(t.Context(), id)
			fail.NowIf(t, err)
			p.ID, p.URL = name, "http://pay.test/"+name
			fail.NowIf(t, fail.Of(d.Lifecycle().KeepPayment(t.Context(), p)))
		}
		wantDue(t, d, time.Now().Add(-time.Hour))
		wantDue(t, d, later, 10, 11)

		settles(t, d, receipt("pay_b", 11), order.Settlement{Outcome: order.SettledPaid}) // the provider has said so
		due := wantDue(t, d, later, 10)
		var claimed atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if mine, err := d.Lifecycle().PostponeLookup(t.Context(), due[0], later); err != nil {
					t.Error(err)
				} else if mine {
					claimed.Add(1)
				}
			})
		}
		wg.Wait()
		fail.Unequal(t, claimed.Load(), 1, "of 8 have the look-up")
		wantDue(t, d, later.Add(-time.Second))
		due = wantDue(t, d, later.Add(time.Second), 10)
		if mine, err := d.Lifecycle().PostponeLookup(t.Context(), due[0], time.Time{}); err != nil || !mine {
			t.Errorf("%v, %v", mine, err)
		}
		wantDue(t, d, later.Add(time.Hour))
	})
}

func wantDue(t *testing.T, d *DB, at time.Time, orders ...int64) []order.Lookup {
	t.Helper()
	due, err := d.Lifecycle().DueLookups(t.Context(), at, 10)
	fail.NowIf(t, err)
	found := map[int64]bool{}
	for _, one := range due {
		found[one.OrderID] = true
	}
	for _, id := range orders {
		if !found[id] {
			t.Errorf("order %d is not due at %v: %+v", id, at, due)
		}
	}
	if len(due) != len(orders) {
		t.Fatalf("due at %v: %+v, want %v", at, due, orders)
	}
	return due
}
