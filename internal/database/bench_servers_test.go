package database

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/order"
	"seckill/internal/testkit"
)

// The benchmarks compare orders with the fastest possible updates of one row. Their ratio matters:
//
//	go test -run - -bench . ./internal/database
const benchConns = 64

// BenchmarkCeiling runs the bare UPDATE of one row over 64 connections. Each UPDATE commits by itself.
func BenchmarkCeiling(b *testing.B) {
	where, d := benchDatabase(b)
	pool := benchPool(b, where, benchConns)
	inParallel(b, func(ctx context.Context, _ int64) error {
		_, err := pool.ExecContext(ctx, "UPDATE vouchers SET stock = stock - 1 WHERE id = ? AND stock > 0", 1)
		return err
	})
	wantSold(b, d)
}

// benchPool connects to a database without this package.
func benchPool(b *testing.B, where testkit.Database, conns int) *sql.DB {
	b.Helper()
	config, err := mysql.ParseDSN(where.DSN)
	if err != nil {
		b.Fatal(err)
	}
	config.InterpolateParams, config.MultiStatements = true, true
	pool, err := sql.Open("mysql", config.FormatDSN())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = pool.Close() })
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)
	return pool
}

// BenchmarkPacket compares the packet of an order with its old form, which a Galera cluster takes apart (ADR 12).
func BenchmarkPacket(b *testing.B) {
	const (
		begin   = "START TRANSACTION; UPDATE vouchers SET stock = stock - 1, version = version + 1"
		insert  = "INSERT INTO orders (id, voucher_id, user_id, unique_user_id, status, created_at) SELECT ?, ?, ?, ?, 'confirmed', NOW(6) "
		writers = 8
	)
	for _, form := range []struct {
		name, packet string
		args         func(n int64) []any
	}{
		{
			"row-count", begin + " WHERE id = ? AND stock > 0; " + insert + "FROM (SELECT 1) one WHERE ROW_COUNT() = 1; COMMIT",
			func(n int64) []any { return []any{1, n, 1, n, n} },
		},
		{
			"last-writer", begin + ", last_writer = ? WHERE id = ? AND stock > 0; " + insert + "FROM vouchers WHERE id = ? AND last_writer = ?; COMMIT",
			func(n int64) []any { return []any{n, 1, n, 1, n, n, 1, n} },
		},
	} {
		b.Run(form.name, func(b *testing.B) {
			where, d := benchDatabase(b)
			pool := benchPool(b, where, writers)
			inParallel(b, func(ctx context.Context, n int64) error {
				_, err := pool.ExecContext(ctx, form.packet, form.args(n)...)
				return err
			})
			wantSold(b, d)
			if audit, err := d.Orders().Audit(context.Background(), 1); err != nil || !audit.Balanced() {
				b.Errorf("audit %+v, %v", audit, err)
			}
		})
	}
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

// BenchmarkSoldOut reads the stock of a voucher that is sold out, as most requests of a sale do.
func BenchmarkSoldOut(b *testing.B) {
	_, d := benchDatabase(b)
	if _, err := d.singles.Exec("UPDATE vouchers SET stock = 0"); err != nil {
		b.Fatal(err)
	}
	inParallel(b, func(ctx context.Context, n int64) error {
		return d.Orders().Transact(ctx, func(ctx context.Context, tx order.Tx) error {
			_, _, err := tx.StockOf(ctx, 1)
			return err
		})
	})
}

const benchStock = 1_000_000_000

func benchDatabase(b *testing.B) (testkit.Database, *DB) {
	b.Helper()
	where := testkit.NewMariaDB(b).Database(b)
	d := openMigrated(b, databaseConfig(where))
	createVoucher(b, d, 1, benchStock)
	return where, d
}

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
