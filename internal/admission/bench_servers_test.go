package admission

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// How long a look-up takes that no other one shares, while all vouchers have pending orders.
func BenchmarkIdleLookup(b *testing.B) {
	for _, vouchers := range []int{1, 610} {
		b.Run(strconv.Itoa(vouchers)+" vouchers", func(b *testing.B) {
			s, g := benchFixture(b)
			for n := range int64(vouchers) {
				s.add(otherVoucher{id: 8000 + n, buckets: 1, epoch: 2, orders: map[int64]int64{1: 1000 + n}})
			}
			for b.Loop() {
				b.StopTimer()
				time.Sleep(maxScanPause) // the pause after the scan before
				b.StartTimer()
				fail.NowUnless(b, fail.Of(g.Lookup(b.Context(), 2, 77)), order.ErrNotFound)
			}
		})
	}
}

func benchFixture(b *testing.B) (*fixture, *Gate) {
	b.Helper()
	s := newFixture(b, at(testkit.NewRedis(b).Addr()), 1<<40)
	g := s.gate(func(c *Config) {
		c.MaxPending = 1 << 40
		c.Client = redis.NewClient(&redis.Options{Addr: s.options.Addr, ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: 64})
	})
	fail.NowIf(b, g.Open(b.Context(), &s.store.voucher))
	return s, g
}
