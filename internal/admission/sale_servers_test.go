package admission_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// A whole sale on real servers, with the real database and consumers, from two processes. Redis loses the voucher twice
// during the sale. At rest every invariant holds.
func TestSaleOnRealServers(t *testing.T) {
	t.Parallel()
	for _, buckets := range []int{1, 4} {
		t.Run(fmt.Sprint(buckets), func(t *testing.T) {
			const stock, buyers = 3000, 5000
			s := newShop(t, testkit.MariaDB(t))
			v := s.create(admittedVoucher, stock, buckets)
			other := *s
			other.start()
			var told atomic.Int64
			buy := func(user int64) {
				o := order.Order{ID: 1_000_000 + user, UserID: user, VoucherID: v.ID}
				gate := []*shop{s, &other}[user%2].gate
				err := gate.Admit(t.Context(), v, o)
				for errors.Is(err, order.ErrUnavailable) {
					time.Sleep(time.Millisecond)
					err = gate.Admit(t.Context(), v, o)
				}
				if err != nil {
					wantErr(t, "a buyer", err, voucher.ErrSoldOut)
				} else if n := told.Add(1); n == stock/3 || n == stock*2/3 {
					s.loseAll()
				}
			}
			// Every user buys a second time: some lost their order, because this Redis keeps nothing, and the others get
			// the same answer again.
			for range 2 {
				var rush sync.WaitGroup
				for w := range int64(50) {
					rush.Go(func() {
						for n := range int64(buyers / 50) {
							buy(w*buyers/50 + n + 1)
						}
					})
				}
				rush.Wait()
			}
			a, users := s.balanced(v), int64(0)
			for bucket := range buckets {
				users += s.client.HLen(t.Context(), ledger.KeysOf(s.prefix, v.ID, bucket).Users).Val()
			}
			if a.Orders != stock || a.Gate.Stock != 0 || a.Gate.Epoch <= 4 || users != stock {
				t.Errorf("%+v, gate %+v, %d users in Redis; want %d orders, nothing left, two rebuilds", a, a.Gate, users, stock)
			}
		})
	}
}
