package admission

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// BenchmarkAdmit measures concurrent buyers, each order for a new user: through the gate, and with one
// call of the same script for each order.
func BenchmarkAdmit(b *testing.B) {
	for _, buyers := range []int{1, 64, 512} {
		b.Run("gate/"+strconv.Itoa(buyers), func(b *testing.B) {
			s, g := benchFixture(b)
			benchBuyers(b, buyers, func(n int64) error { return s.buy(g, n, n+1e18) })
		})
		b.Run("one by one/"+strconv.Itoa(buyers), func(b *testing.B) {
			s, g := benchFixture(b)
			known, err := g.voucher(&s.store.voucher).awaitOpen(b.Context(), g.voucher(&s.store.voucher).buckets[0], g.config.OpenWait)
			if err != nil {
				b.Fatal(err)
			}
			server := ledger.New(dial(b, s.options), ledger.Options{})
			benchBuyers(b, buyers, func(n int64) error {
				batch := batchOf(s.keys, ledger.Known{Epoch: known.Epoch}, order.Order{ID: n + 1e18, UserID: n})
				batch.MaxPending, batch.Expiry = 1<<40, 1<<50
				a, err := server.Admit(context.Background(), batch)
				if err == nil && a.Outcomes != "a" {
					err = errors.New(a.Outcomes)
				}
				return err
			})
		})
	}
}

func BenchmarkSoldOut(b *testing.B) {
	s, g := benchFixture(b)
	if err := s.client.HSet(b.Context(), s.keys.Meta, "stock", 0).Err(); err != nil {
		b.Fatal(err)
	}
	var next atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			n := next.Add(1)
			if err := s.buy(g, n, n); !errors.Is(err, voucher.ErrSoldOut) {
				b.Error(err)
				return
			}
		}
	})
}

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
				if _, err := g.Lookup(b.Context(), 2, 77); !errors.Is(err, order.ErrNotFound) {
					b.Fatal(err)
				}
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
	if err := g.Open(b.Context(), &s.store.voucher); err != nil {
		b.Fatal(err)
	}
	return s, g
}

func benchBuyers(b *testing.B, buyers int, buy func(n int64) error) {
	b.Helper()
	b.ReportAllocs()
	done := make(chan error, buyers)
	var next atomic.Int64
	b.ResetTimer()
	for range buyers {
		go func() {
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					done <- nil
					return
				}
				if err := buy(n); err != nil {
					done <- err
					return
				}
			}
		}()
	}
	for range buyers {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
}
