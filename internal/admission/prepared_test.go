package admission

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// failingPages is a database that fails after the first page of the orders of a voucher, while fails is set.
type failingPages struct {
	*store
	fails atomic.Bool
	tries atomic.Int64
}

func (s *failingPages) LiveOrders(ctx context.Context, id, after int64, limit int) ([]order.Order, error) {
	if after > 0 && s.fails.Load() {
		s.tries.Add(1)
		return nil, order.ErrUnavailable
	}
	return s.store.LiveOrders(ctx, id, after, limit)
}

// Attempts to open a voucher that fail do not leave a copy of its users in Redis each.
func TestFailedRebuildsLeaveNoUsers(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"database", "Redis"} {
		inBubble(t, 10, func(t *testing.T, s *fixture, _ *simulate.Redis) {
			s.split(2)
			for user := range int64(pageSize + 500) {
				s.store.orders[user+1] = order.Order{ID: user + 100_000, UserID: user + 1, VoucherID: s.store.voucher.ID, Status: order.Confirmed}
			}
			db := &failingPages{store: s.store}
			var refuses atomic.Bool // to open one of the buckets
			fails := &db.fails
			if where == "Redis" {
				fails = &refuses
			}
			fails.Store(true)
			c := s.config
			c.Store, c.OpenWait = db, 100*time.Millisecond
			c = c.WithDefaults()
			g := newGate(c, &faulty{buckets: newLedger(c), call: func(_ context.Context, step string, keys ledger.Keys, do func() error) error {
				if step == "open" && refuses.Load() && keys == s.others[0] {
					db.tries.Add(1)
					return errors.New("no connection")
				}
				return do()
			}})
			t.Cleanup(func() { _ = g.Close() })
			prepared := func() (n int) {
				for _, key := range s.client.Keys(t.Context(), s.prefix+"*").Val() {
					if s.client.Type(t.Context(), key).Val() == "hash" && s.client.TTL(t.Context(), key).Val() > 0 {
						n++
					}
				}
				return n
			}
			until(t, "some attempts", func() bool {
				_ = s.buy(g, 1_000_000, 1)
				return db.tries.Load() >= 4
			})
			until(t, "no users that were prepared, but those of an attempt under way", func() bool { return prepared() <= 2 })
			fails.Store(false)
			until(t, "the voucher is open", func() bool { return s.buy(g, 1_000_001, 2) == nil })
			fail.Unequal(t, prepared(), 0, "prepared hashes are left")
		})
	}
}
