package database

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// databaseConfig returns the configuration for a database of the testkit.
func databaseConfig(where testkit.Database) Config {
	if where.Engine == "sqlite" {
		return Config{SQLite: where.DSN}
	}
	return Config{MySQL: where.DSN}
}

// open opens a database until the test ends.
func open(t testing.TB, c Config) *DB {
	t.Helper()
	d, err := Open(t.Context(), c)
	fail.NowIf(t, err)
	t.Cleanup(func() {
		fail.If(t, d.Close())
	})
	return d
}

// openMigrated opens a database and migrates its schema.
func openMigrated(t testing.TB, c Config) *DB {
	t.Helper()
	d := open(t, c)
	fail.NowIf(t, fail.Of(d.Migrate(t.Context())))
	return d
}

// engines runs fn for every engine, with the schema migrated.
func engines(t *testing.T, fn func(t *testing.T, d *DB)) {
	t.Helper()
	t.Parallel()
	testkit.SQLEngines(t, func(t *testing.T, where testkit.Database) {
		fn(t, openMigrated(t, databaseConfig(where)))
	})
}

// createVoucher stores a voucher with a stock.
func createVoucher(t testing.TB, d *DB, id, stock int64) {
	t.Helper()
	fail.NowIf(t, d.Vouchers().CreateVoucher(t.Context(), newVoucher(id, stock)))
}

func newVoucher(id, stock int64) *voucher.Voucher {
	now := time.Date(2026, 2, 3, 4, 5, 6, 789_012_000, time.UTC)
	return &voucher.Voucher{
		ID: id, Title: "100 元代金券 🎫", PriceCents: 8000, ValueCents: 10000, Stock: stock, InitialStock: stock, Revision: 1,
		BeginAt: now, EndAt: now.Add(time.Hour + time.Microsecond), Policy: voucher.DefaultPolicy(), CreatedAt: now,
	}
}

func newOrder(id, voucherID, userID int64) order.Order {
	return order.Order{
		ID: id, VoucherID: voucherID, UserID: userID, Status: order.Confirmed,
		CreatedAt: time.Date(2026, 2, 3, 4, 5, 6, 123_456_000, time.UTC),
	}
}

// placeOrder places an order as the locked flow does, with a conditional decrement.
func placeOrder(ctx context.Context, d *DB, o order.Order, unique bool) error {
	return d.Orders().Transact(ctx, func(ctx context.Context, tx order.Tx) error {
		has, err := tx.Ordered(ctx, o.VoucherID, o.UserID)
		if err != nil {
			return err
		}
		if has && unique {
			return order.ErrAlreadyOrdered
		}
		return errors.Join(tx.Decrement(ctx, o.VoucherID), tx.Insert(ctx, o, unique))
	})
}

// wantAudit compares the audit of voucher 1.
func wantAudit(t *testing.T, d *DB, want order.Audit) {
	t.Helper()
	got, err := d.Orders().Audit(context.Background(), 1)
	fail.NowIf(t, err)
	fail.Unequal(t, got, want, "audit")
}

// runAtOnce calls fn n times at the same moment and returns the error of each call.
func runAtOnce(n int, fn func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			errs[i] = fn(i)
		})
	}
	close(start)
	all.Wait()
	return errs
}

// allAtOnce is runAtOnce for calls that all succeed.
func allAtOnce(t testing.TB, n int, fn func(i int) error) {
	t.Helper()
	fail.NowIf(t, errors.Join(runAtOnce(n, fn)...))
}

// countErrs counts how often each of the outcomes occurred. Any other outcome fails the test.
func countErrs(t *testing.T, errs []error, outcomes ...error) map[error]int {
	t.Helper()
	counts := make(map[error]int)
next:
	for _, err := range errs {
		for _, outcome := range outcomes {
			if errors.Is(err, outcome) {
				counts[outcome]++
				continue next
			}
		}
		t.Errorf("unexpected outcome: %v", err)
	}
	return counts
}

// barrier blocks callers until n of them have arrived, once.
type barrier struct {
	missing atomic.Int64
	open    chan struct{}
}

func newBarrier(n int64) *barrier {
	b := &barrier{open: make(chan struct{})}
	b.missing.Store(n)
	return b
}

func (b *barrier) wait(ctx context.Context) error {
	if b.missing.Add(-1) == 0 {
		close(b.open)
	}
	select {
	case <-b.open:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("barrier: %w", ctx.Err())
	}
}

// flushed sends a deferred write and returns the error of the write or of the flush.
func flushed(ctx context.Context, tx order.Tx, err error) error {
	return errors.Join(err, tx.Flush(ctx))
}
