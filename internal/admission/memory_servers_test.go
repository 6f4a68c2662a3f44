package admission

import (
	"strconv"
	"sync"
	"testing"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestMemoryPerOrder(t *testing.T) {
	server := testkit.NewRedis(t)
	const orders = 20_000
	s := newFixture(t, at(server.Addr()), orders)
	g := s.gate(func(c *Config) { c.MaxPending = orders })
	used := func() int64 {
		info := s.client.InfoMap(t.Context(), "memory")
		n, err := strconv.ParseInt(info.Item("Memory", "used_memory"), 10, 64)
		fail.NowIf(t, err)
		return n
	}
	fail.NowIf(t, g.Open(t.Context(), &s.store.voucher))
	before := used()
	var wg sync.WaitGroup
	for w := range int64(100) {
		wg.Go(func() {
			for n := range int64(orders / 100) {
				// Ids as they are in life: 19 digits for an order.
				if err := s.buy(g, 1_000_000_000+w*orders+n, 2_587_575_859_586_103_540+w*orders+n); err != nil {
					t.Errorf("buy: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	waiting := float64(used()-before) / orders
	s.takeAll()
	after := float64(used()-before) / orders
	t.Logf("%.0f bytes per order before, %.0f after it is persisted", waiting, after)
	if after >= 200 {
		t.Errorf("%.0f bytes per order after it is persisted, want less than 200", after)
	}
}
