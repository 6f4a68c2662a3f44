package database

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/testkit/fail"
)

// The buckets with returns are read in pages. Returns of an epoch that is over, which are removed on the way, hide no
// other bucket.
func TestReturnsInPages(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		store := d.AdmissionStore()
		next := int64(0)
		add := func(voucherID int64, bucket int, epoch int64, orders int) {
			t.Helper()
			for range orders {
				next++
				_, err := d.singles.ExecContext(t.Context(), "INSERT INTO returned_orders (order_id, voucher_id, user_id, bucket, epoch) VALUES (?, ?, ?, ?, ?)",
					next, voucherID, next, bucket, epoch)
				fail.NowIf(t, err)
			}
		}
		for id := range int64(3) {
			v := newVoucher(1+id, 10)
			v.Policy.Buckets, v.PayWithin = 4, time.Hour
			openSale(t, d, v)
		}
		const over, current = firstEpoch - 1, firstEpoch + 1
		add(3, 0, current, 1)
		add(2, 1, current, 2)
		add(2, 1, over, 1)
		add(1, 3, current, 3)
		add(1, 1, over, 2)
		add(1, 2, over, 1)
		add(1, 0, current, 1)
		want := []string{"voucher 1, bucket 0, 1 orders", "voucher 1, bucket 3, 3 orders", "voucher 2, bucket 1, 2 orders", "voucher 3, bucket 0, 1 orders"}
		for limit := 1; limit <= 8; limit++ {
			var got []string
			for after, more := (contract.Return{}), true; more; {
				var due []contract.Return
				var err error
				due, more, err = store.Returns(t.Context(), after, limit)
				if fail.NowIf(t, err); len(due) > limit {
					t.Fatalf("%d buckets, at most %d", len(due), limit)
				}
				for _, r := range due {
					got, after = append(got, fmt.Sprintf("voucher %d, bucket %d, %d orders", r.VoucherID, r.Bucket, len(r.Orders))), r
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d at a time: %q, want %q", limit, got, want)
			}
			add(1, 1, over, 1)
			add(2, 3, over, 2)
		}
	})
}

// Whatever vouchers orders are accepted for, the prices that are remembered are bounded.
func TestPricesAreBounded(t *testing.T) {
	t.Parallel()
	var p prices
	const batch = 512
	for first := int64(0); first < 3*maxPrices; first += batch {
		found := make(priceList, batch)
		for id := range int64(batch) {
			found[first+id] = price{cents: first + id}
		}
		p.remember(found)
		if len(p.known) > maxPrices {
			t.Fatalf("%d prices are remembered, want %d at most", len(p.known), maxPrices)
		}
		fail.NowUnequal(t, p.known[first+1].cents, first+1, "the newest price")
	}
}
