package admission

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/lock"
	"seckill/internal/lock/local"
	"seckill/internal/lock/locktest/redisstore"
	"seckill/internal/testkit"
)

func TestScriptsDeclareTheirKeys(t *testing.T) {
	t.Parallel()
	var s *fixture
	redisstore.DeclaresKeys(t, func(client *redis.Client, prefix string) (lock.Locker, error) {
		sh := newStore(3)
		s = &fixture{t: t, consumer: &consumer{tb: t, client: client, store: sh, keys: ledger.KeysOf(prefix, sh.voucher.ID, 0)}}
		s.config = Config{Client: client, Store: sh, Workers: workers{complete: true}, Locker: local.New(), Log: slog.New(slog.DiscardHandler), Prefix: prefix}
		s.split(2)
		return local.New(), nil
	}, func(ctx context.Context, _ lock.Locker) {
		for range 2 { // the second time by EVALSHA, and with users to copy
			g := s.gate(nil)
			for _, user := range usersOf(5, 2, func(b int) bool { return b == 1 }) { // with draws
				_ = s.buy(g, user, user+100)
			}
			_, _ = s.take(ctx, false)
			_, _ = g.Audit(ctx, s.store.voucher.ID)
			_ = s.client.Del(ctx, s.keys.Meta)
		}
	})
}

func TestMemoryPerOrder(t *testing.T) {
	server := testkit.NewRedis(t)
	const orders = 20_000
	s := newFixture(t, at(server.Addr()), orders)
	g := s.gate(func(c *Config) { c.MaxPending = orders })
	used := func() int64 {
		info := s.client.InfoMap(t.Context(), "memory")
		n, err := strconv.ParseInt(info.Item("Memory", "used_memory"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := g.Open(t.Context(), &s.store.voucher); err != nil {
		t.Fatal(err)
	}
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
