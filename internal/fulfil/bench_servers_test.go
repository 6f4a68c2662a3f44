package fulfil

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// BenchmarkBacklog measures how fast a backlog is written to the database, per order.
func BenchmarkBacklog(b *testing.B) {
	for _, size := range []int{100, 250, 500, 1000} {
		for _, workers := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("batch=%d/workers=%d", size, workers), func(b *testing.B) {
				client := clientOf(b, testkit.Redis(b).Addr())
				db := openDB(b, testkit.MariaDB(b))
				prefix, now := testkit.KeyPrefix(b), time.Now()
				v := &voucher.Voucher{
					ID: 1, Title: "a voucher", Stock: voucher.MaxStock, InitialStock: voucher.MaxStock,
					BeginAt: now.Add(-time.Hour), EndAt: now.Add(time.Hour), Policy: voucher.DefaultPolicy(), CreatedAt: now,
				}
				v.Policy.Flow = voucher.FlowAdmission
				if err := db.Vouchers().CreateVoucher(b.Context(), v); err != nil {
					b.Fatal(err)
				}
				if _, err := db.AdmissionStore().Open(b.Context(), 1, 1); err != nil {
					b.Fatal(err)
				}
				keys := ledger.KeysOf(prefix, 1, 0)
				for n := 0; n < b.N; {
					pipe := client.Pipeline()
					for range min(1000, b.N-n) {
						n++
						id := int64(n)
						pipe.XAdd(b.Context(), &redis.XAddArgs{Stream: keys.Orders, Values: fields(order.Accepted{
							OrderID: 300_000_000_000 + id*7, UserID: id*7919%100_000_007 + 1, At: now, Epoch: 2, Seq: id,
						})})
					}
					if _, err := pipe.Exec(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
				var done atomic.Int64
				ctx, cancel := context.WithCancel(b.Context())
				f, err := New(Config{
					Client: client, Store: db.AdmissionStore(), Orders: db.Orders(), Log: slog.New(slog.DiscardHandler), Prefix: prefix,
					BatchSize: size, Workers: workers,
					Observer: Observer{Persisted: func(time.Duration) {
						if done.Add(1) == int64(b.N) {
							cancel()
						}
					}},
				})
				if err != nil {
					b.Fatal(err)
				}
				b.ResetTimer()
				f.Run(ctx)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
			})
		}
	}
}
