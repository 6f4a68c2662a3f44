package fulfil

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// BenchmarkBacklog measures how fast a backlog is written to the database, per order.
func BenchmarkBacklog(b *testing.B) {
	for _, size := range []int{100, 250, 500, 1000} {
		for _, workers := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("batch=%d/workers=%d", size, workers), func(b *testing.B) {
				s := openReal(b, clientOf(b, testkit.Redis(b).Addr()), testkit.MariaDB(b), sale{stock: voucher.MaxStock})
				for n := 0; n < b.N; n += 1000 {
					s.accept(1, min(1000, b.N-n))
				}
				var done atomic.Int64
				ctx, cancel := context.WithCancel(b.Context())
				f, err := New(s.config(func(c *Config) {
					c.BatchSize, c.Workers = size, workers
					c.Observer.Persisted = func(time.Duration) {
						if done.Add(1) == int64(b.N) {
							cancel()
						}
					}
				}))
				s.must(err)
				b.ResetTimer()
				f.Run(ctx)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
			})
		}
	}
}
