package database

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"seckill/internal/testkit"
)

// The benchmarks compare orders with the fastest possible updates of one row. Their ratio matters:
//
//	go test -run - -bench . ./internal/database
const benchConns = 64

// BenchmarkCeiling runs the bare UPDATE of one row over 64 connections. Each UPDATE commits by itself.
func BenchmarkCeiling(b *testing.B) {
	where := testkit.NewMariaDB(b).Database(b)
	d := openMigrated(b, databaseConfig(where))
	createVoucher(b, d, 1, benchStock)
	pool, err := sql.Open("mysql", where.DSN+"?interpolateParams=true")
	noErr(b, err)
	b.Cleanup(func() { _ = pool.Close() })
	pool.SetMaxOpenConns(benchConns)
	pool.SetMaxIdleConns(benchConns)
	inParallel(b, func(ctx context.Context, _ int64) error {
		_, err := pool.ExecContext(ctx, "UPDATE vouchers SET stock = stock - 1 WHERE id = ? AND stock > 0", 1)
		return err
	})
	wantSold(b, d)
}

// BenchmarkSell places whole orders from 64 goroutines: check the user, decrement, insert, commit. The
// fewer writers, the shorter the queue for the hot row.
func BenchmarkSell(b *testing.B) {
	for _, writers := range []int{4, 8, 16, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			where := testkit.NewMariaDB(b).Database(b)
			c := databaseConfig(where)
			c.MaxWriters = writers * admissionShare / (admissionShare - 1) // those for admission come on top
			d := openMigrated(b, c)
			createVoucher(b, d, 1, benchStock)
			inParallel(b, func(ctx context.Context, n int64) error {
				return placeOrder(ctx, d, newOrder(n, 1, n), true)
			})
			wantSold(b, d)
			audit, err := d.Orders().Audit(context.Background(), 1)
			if err != nil || !audit.Balanced() {
				b.Errorf("audit %+v, %v", audit, err)
			}
		})
	}
}

const benchStock = 1_000_000_000

// inParallel runs fn b.N times over 64 goroutines and reports the rate.
func inParallel(b *testing.B, fn func(ctx context.Context, n int64) error) {
	b.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for range benchConns {
		all.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				if err := fn(context.Background(), n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
}

func wantSold(b *testing.B, d *DB) {
	b.Helper()
	v, err := d.Vouchers().Voucher(context.Background(), 1)
	if err != nil {
		b.Fatal(err)
	}
	if sold := v.InitialStock - v.Stock; sold != int64(b.N) {
		b.Errorf("sold %d, want %d", sold, b.N)
	}
}
