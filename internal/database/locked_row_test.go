package database

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit"
)

// repeated is what the log says of a transaction that is repeated.
const repeated = "database collision, trying again"

// Somebody keeps the voucher's row locked. Persist waits for it once, as its caller has other vouchers' orders to write.
func TestPersistWaitsOnceForALockedRow(t *testing.T) {
	t.Parallel()
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		c := databaseConfig(where)
		c.LockWait, c.MaxAttempts = time.Second, 2
		var log bytes.Buffer
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		d := openMigrated(t, c)
		openVoucher(t, d, 1, 10)
		wantErr(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
			wantErr(t, flushed(ctx, tx, tx.Decrement(ctx, 1)))
			_, err := d.AdmissionStore().Persist(t.Context(), acceptedRange(1, 4, 1))
			wantErr(t, err, order.ErrUnavailable)
			if strings.Contains(log.String(), repeated) {
				t.Errorf("it was repeated: %s", log.String())
			}
			// A buyer waits for the row twice, and the log says so.
			wantErr(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
				return flushed(ctx, tx, tx.Decrement(ctx, 1))
			}), order.ErrUnavailable)
			if n := strings.Count(log.String(), repeated); n != 1 {
				t.Errorf("a buyer's transaction was repeated %d times, want 1", n)
			}
			return tx.SetStock(ctx, 1, 10)
		}))
		_, err := d.AdmissionStore().Persist(t.Context(), acceptedRange(1, 4, 1))
		wantErr(t, err)
		wantAudit(t, d, order.Audit{InitialStock: 10, Stock: 7, Orders: 3, DistinctUsers: 3})
		wantNoOpenTransaction(t, d)
	})
}

// Buyers wait for one voucher's row, which somebody keeps locked, with all connections that they can get. The accepted
// orders of another voucher do not wait for them.
func TestPersistWhileBuyersWaitForARow(t *testing.T) {
	t.Parallel()
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		c := databaseConfig(where)
		c.MaxWriters, c.LockWait, c.ReadTimeout = 4, time.Minute, 2*time.Minute
		d := openMigrated(t, c)
		createVoucher(t, d, 1, 10)
		openVoucher(t, d, 2, 10)
		conn, err := d.readers.Conn(t.Context())
		wantErr(t, err)
		for _, query := range []string{"BEGIN", "UPDATE vouchers SET stock = stock WHERE id = 1"} {
			_, err := conn.ExecContext(t.Context(), query)
			wantErr(t, err)
		}
		var buyers sync.WaitGroup
		for range 20 {
			buyers.Go(func() {
				_ = transact(t, d, func(ctx context.Context, tx order.Tx) error { return flushed(ctx, tx, tx.Decrement(ctx, 1)) })
			})
		}
		testkit.Until(t, "buyers that wait for a connection", func() bool { return d.writers.Stats().WaitCount > 0 })
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // half of what a buyer waits for the row
		defer cancel()
		if _, err := d.AdmissionStore().Persist(ctx, acceptedRange(1, 4, 2)); err != nil {
			t.Errorf("accepted orders of the other voucher: %v", err)
		}
		_, err = conn.ExecContext(t.Context(), "ROLLBACK")
		wantErr(t, errors.Join(err, conn.Close()))
		buyers.Wait()
	})
}

// Somebody keeps one voucher's row locked. Unpaid orders of other vouchers expire after one wait for it.
func TestExpiryWaitsOnceForALockedRow(t *testing.T) {
	t.Parallel()
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		c := databaseConfig(where)
		c.LockWait = time.Second
		var log bytes.Buffer
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		d := openMigrated(t, c)
		for id := range int64(2) {
			createVoucher(t, d, id+1, 10)
			wantErr(t, placeOrder(t.Context(), d, newUnpaid(id+1, id+1, 1, time.Now().Add(-time.Minute)), true))
		}
		wantErr(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
			wantErr(t, flushed(ctx, tx, tx.Decrement(ctx, 1)))
			if n, err := d.Life().ExpireDue(t.Context(), 10); n != 1 || !errors.Is(err, order.ErrUnavailable) {
				t.Errorf("%d orders expired, %v", n, err)
			}
			return nil
		}))
		if strings.Contains(log.String(), repeated) {
			t.Errorf("it was repeated: %s", log.String())
		}
		wantState(t, d, 1, order.Unpaid)
		wantState(t, d, 2, order.Unpaid, order.Expired)
	})
}
