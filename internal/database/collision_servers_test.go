package database

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// rowLockingEngines runs fn over the engines that lock rows, at the same time.
func rowLockingEngines(t *testing.T, fn func(t *testing.T, where testkit.Database)) {
	t.Helper()
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) { t.Parallel(); fn(t, testkit.MariaDB(t)) })
	t.Run("mysql", func(t *testing.T) { t.Parallel(); fn(t, testkit.MySQL(t)) })
}

// repeated is what the log says of a transaction that is repeated.
const repeated = "database collision, trying again"

// Somebody keeps one voucher's row locked. Persist waits for it once, as its caller has other vouchers' orders to
// write, and so does the expiry of unpaid orders, which goes on to the next voucher.
func TestWhoWaitsOnceForALockedRow(t *testing.T) {
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		c := databaseConfig(where)
		c.LockWait, c.MaxAttempts = time.Second, 2
		var log bytes.Buffer
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		d := openMigrated(t, c)
		openVoucher(t, d, 1, 10)
		createVoucher(t, d, 2, 10)
		for id := range int64(2) {
			fail.NowIf(t, placeOrder(t.Context(), d, newUnpaid(101+id, 1+id, 101, time.Now().Add(-time.Minute)), true))
		}
		fail.NowIf(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
			fail.NowIf(t, flushed(ctx, tx, tx.Decrement(ctx, 1)))
			fail.Unless(t, fail.Of(d.AdmissionStore().Persist(t.Context(), acceptedRange(1, 4, 1))), order.ErrUnavailable)
			if n, err := d.Lifecycle().ExpireDue(t.Context(), 10); n != 1 || !errors.Is(err, order.ErrUnavailable) {
				t.Errorf("%d orders expired, %v", n, err)
			}
			if strings.Contains(log.String(), repeated) {
				t.Errorf("it was repeated: %s", log.String())
			}

			fail.Unless(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
				return flushed(ctx, tx, tx.Decrement(ctx, 1))
			}), order.ErrUnavailable)

			fail.Unequal(t, strings.Count(log.String(), repeated), 1, "repetitions of a buyer's transaction")

			err := testkit.NoTransaction(ctx, d.readers, time.Second, "vouchers", "orders")
			if failed, refused := errors.AsType[*mysql.MySQLError](err); !refused || failed.Number != 1205 {
				t.Errorf("beside an open transaction: %v", err)
			}
			return tx.SetStock(ctx, 1, 9)
		}))

		fail.NowIf(t, fail.Of(d.AdmissionStore().Persist(t.Context(), acceptedRange(1, 4, 1))))
		wantAudit(t, d, order.Audit{InitialStock: 10, Stock: 6, Orders: 4, DistinctUsers: 4})
		wantState(t, d, 101, order.Unpaid)
		wantState(t, d, 102, order.Unpaid, order.Expired)
		wantNoOpenTransaction(t, d)
	})
}

// Buyers wait for one voucher's row, which somebody keeps locked, with all connections that they can get. The accepted
// orders of another voucher do not wait for them.
func TestPersistWhileBuyersWaitForARow(t *testing.T) {
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		c := databaseConfig(where)
		c.MaxWriters, c.LockWait, c.ReadTimeout = 4, time.Minute, 2*time.Minute
		d := openMigrated(t, c)
		createVoucher(t, d, 1, 10)
		openVoucher(t, d, 2, 10)
		conn, err := d.readers.Conn(t.Context())
		fail.NowIf(t, err)
		for _, query := range []string{"BEGIN", "UPDATE vouchers SET stock = stock WHERE id = 1"} {
			fail.NowIf(t, fail.Of(conn.ExecContext(t.Context(), query)))
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
		fail.If(t, fail.Of(d.AdmissionStore().Persist(ctx, acceptedRange(1, 4, 2))), "accepted orders of the other voucher")
		_, err = conn.ExecContext(t.Context(), "ROLLBACK")
		fail.NowIf(t, errors.Join(err, conn.Close()))
		buyers.Wait()
	})
}

// Two transactions lock the same two rows in opposite order. Each holds its first row before either asks for its second
// one, so one of them must fail and be repeated.
func TestDeadlockIsRepeated(t *testing.T) {
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		d := openMigrated(t, databaseConfig(where))
		createVoucher(t, d, 1, 10)
		createVoucher(t, d, 2, 10)
		bothHoldOne := newBarrier(2)
		var attempts atomic.Int64
		allAtOnce(t, 2, func(i int) error {
			first, second := int64(i+1), int64(2-i)
			return transact(t, d, func(ctx context.Context, tx order.Tx) error {
				attempts.Add(1)
				if err := flushed(ctx, tx, tx.Decrement(ctx, first)); err != nil {
					return err
				}
				if err := bothHoldOne.wait(ctx); err != nil {
					return err
				}
				return tx.Decrement(ctx, second)
			})
		})
		fail.Unequal(t, attempts.Load(), 3, "attempts, one each and one repetition")
		wantStock(t, d, 1, 8, 2)
		wantStock(t, d, 2, 8, 2)
		wantNoOpenTransaction(t, d)
	})
}

// Error 1205 rolls back the statement only. If the whole transaction were not rolled back and repeated, the order would
// exist twice or not at all.
func TestLockWaitRepeatsTheWholeTransaction(t *testing.T) {
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		c := databaseConfig(where)
		c.LockWait = time.Second
		d := openMigrated(t, c)
		createVoucher(t, d, 1, 10)

		holding, release := make(chan struct{}), make(chan struct{})
		allAtOnce(t, 2, func(i int) error {
			if i == 0 {
				return transact(t, d, func(ctx context.Context, tx order.Tx) error {
					err := flushed(ctx, tx, tx.Decrement(ctx, 1))
					close(holding)
					<-release
					return err
				})
			}
			<-holding
			attempt := 0
			return transact(t, d, func(ctx context.Context, tx order.Tx) error {
				attempt++
				if err := tx.Insert(ctx, newOrder(1, 1, 42), true); err != nil {
					return err
				}
				err := flushed(ctx, tx, tx.Decrement(ctx, 1))
				if attempt == 1 {
					if n, ok := errors.AsType[*mysql.MySQLError](err); !ok || n.Number != 1205 {
						t.Errorf("first attempt: %v, want 1205", err)
					}
					close(release)
					return nil // a collision counts even if fn ignores it
				}
				return err
			})
		})
		wantAudit(t, d, order.Audit{InitialStock: 10, Stock: 8, Orders: 1, DistinctUsers: 1})
		wantNoOpenTransaction(t, d)
	})
}

// Concurrent batches that share vouchers and buckets wait for each other without a deadlock.
func TestBatchesLockInTheSameOrder(t *testing.T) {
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		const vouchers, buckets, consumers, batches, size = 3, 4, 6, 12, 24
		c := databaseConfig(where)
		c.MaxAttempts = 1 // a deadlock is an error
		d := openMigrated(t, c)
		for v := int64(1); v <= vouchers; v++ {
			openSplitVoucher(t, d, v, consumers*batches*size, buckets)
		}
		allAtOnce(t, consumers, func(i int) error {
			for n := range batches {
				first := int64(1 + (n*consumers+i)*size)
				batch := acceptedRange(first, first+size, 1)
				for j := range batch {
					batch[j].VoucherID = 1 + rand.Int64N(vouchers)
					batch[j].Bucket = rand.IntN(buckets)
				}
				if _, err := d.AdmissionStore().Persist(t.Context(), batch); err != nil {
					return err
				}
			}
			return nil
		})
		wantNoOpenTransaction(t, d)
	})
}

// If the server reports no error and wrote no order, the order is not confirmed.
func TestDecrementWithoutItsOrderIsNoSuccess(t *testing.T) {
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		d := openMigrated(t, databaseConfig(where))
		createVoucher(t, d, 1, 5)
		fail.Unless(t, transact(t, d, func(ctx context.Context, x order.Tx) error {
			err := errors.Join(x.Decrement(ctx, 1), x.Insert(ctx, newOrder(1, 1, 42), true))
			insert := &x.(*tx).pending[1]
			insert.dependentArgs[len(insert.dependentArgs)-1] = int64(7)
			return err
		}), errNoOrder)

		wantNoOpenTransaction(t, d)
	})
}
