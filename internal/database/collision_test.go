package database

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/order"
	"seckill/internal/testkit"
)

// rowLockingEngines runs fn over the engines that lock rows.
func rowLockingEngines(t *testing.T, fn func(t *testing.T, where testkit.Database)) {
	t.Helper()
	t.Run("mariadb", func(t *testing.T) { fn(t, testkit.MariaDB(t)) })
	t.Run("mysql", func(t *testing.T) { fn(t, testkit.MySQL(t)) })
}

// Two transactions lock the same two rows in opposite order. Each holds its first row before either asks
// for its second one, so one of them must fail and be repeated.
func TestDeadlockIsRepeated(t *testing.T) {
	t.Parallel()
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		d := openMigrated(t, databaseConfig(where))
		createVoucher(t, d, 1, 10)
		createVoucher(t, d, 2, 10)
		bothHoldOne := newBarrier(2)
		var attempts atomic.Int64
		for _, err := range runAtOnce(2, func(i int) error {
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
		}) {
			wantErr(t, err)
		}
		if n := attempts.Load(); n != 3 {
			t.Errorf("%d attempts, want 3: one each, and one repetition", n)
		}
		wantStock(t, d, 1, 8, 2)
		wantStock(t, d, 2, 8, 2)
		wantNoOpenTransaction(t, d)
	})
}

// Error 1205 rolls back the statement only. If the whole transaction were not rolled back and repeated,
// the order would exist twice or not at all.
func TestLockWaitRepeatsTheWholeTransaction(t *testing.T) {
	t.Parallel()
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		c := databaseConfig(where)
		c.LockWait = time.Second
		d := openMigrated(t, c)
		createVoucher(t, d, 1, 10)

		holding, release := make(chan struct{}), make(chan struct{})
		errs := runAtOnce(2, func(i int) error {
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
		for _, err := range errs {
			wantErr(t, err)
		}
		wantAudit(t, d, order.Audit{InitialStock: 10, Stock: 8, Orders: 1, DistinctUsers: 1})
		wantNoOpenTransaction(t, d)
	})
}

// Two processes use one file: the busy timeout runs out, and the transaction is repeated.
func TestBusyFileRepeatsTheTransaction(t *testing.T) {
	t.Parallel()
	where := testkit.SQLite(t)
	c := databaseConfig(where)
	c.LockWait = time.Millisecond
	c.MaxAttempts = 1000
	d, other := openMigrated(t, c), open(t, c)
	createVoucher(t, d, 1, 10)

	attempts := 0
	tried := make(chan struct{})
	holding := make(chan struct{})
	errs := runAtOnce(2, func(i int) error {
		if i == 0 {
			return transact(t, other, func(ctx context.Context, tx order.Tx) error {
				err := flushed(ctx, tx, tx.Decrement(ctx, 1))
				close(holding)
				<-tried
				return err
			})
		}
		<-holding
		return transact(t, d, func(ctx context.Context, tx order.Tx) error {
			if attempts++; attempts == 3 {
				close(tried)
			}
			return tx.Decrement(ctx, 1)
		})
	})
	for _, err := range errs {
		wantErr(t, err)
	}
	if attempts < 3 {
		t.Errorf("%d attempts", attempts)
	}
	wantStock(t, d, 1, 8, 2)
}

var errDeadlock = &mysql.MySQLError{Number: 1213, Message: "Deadlock found"}

func TestRetryIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &DB{config: Config{MaxAttempts: 5}.withDefaults()}
		began, attempts := time.Now(), 0
		err := d.retry(t.Context(), func() error { attempts++; return translate(t.Context(), errDeadlock) })
		wantErr(t, err, order.ErrUnavailable, errDeadlock)
		if attempts != 5 {
			t.Errorf("%d attempts", attempts)
		}
		if pauses := time.Since(began); pauses < 15*time.Millisecond || pauses > 30*time.Millisecond {
			t.Errorf("pauses add up to %v, want half to the whole of 2+4+8+16 ms", pauses)
		}
	})
}

func TestRetryEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &DB{config: Config{MaxAttempts: 1 << 30}.withDefaults()}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := d.retry(ctx, func() error { return translate(ctx, errDeadlock) })
		wantErr(t, err, context.DeadlineExceeded)
	})
}

func TestOnlyOwnCollisionsAreRepeated(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, d *DB) {
		attempts := 0
		err := transact(t, d, func(context.Context, order.Tx) error {
			attempts++
			return errDeadlock // as from a lock that is kept in a table
		})
		wantErr(t, err, errDeadlock)
		if attempts != 1 {
			t.Errorf("%d attempts for the deadlock of another transaction", attempts)
		}
	})
}

// A unique index that somebody has added refuses orders. No user has a second order, so no order is at fault.
func TestDuplicateOfAnUnknownIndex(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, d *DB) {
		openVoucher(t, d, 1, 10)
		openVoucher(t, d, 2, 10)
		store, first, second := d.AdmissionStore(), accepted(1, 1, 41), accepted(2, 2, 41)
		_, err := store.Persist(t.Context(), []order.Accepted{first})
		noErr(t, err)
		for _, index := range []string{"user_id", "created_at"} { // the second one refuses rejected orders, too
			_, err := d.writers.ExecContext(t.Context(), "CREATE UNIQUE INDEX strange ON orders ("+index+")")
			noErr(t, err)
			_, err = store.Persist(t.Context(), []order.Accepted{second})
			if !errors.Is(err, order.ErrUnavailable) || errors.Is(err, order.ErrAlreadyOrdered) {
				t.Errorf("a unique index on %s: %v", index, err)
			}
			if _, err := store.Reject(t.Context(), second); !errors.Is(err, order.ErrUnavailable) {
				t.Errorf("a unique index on %s: rejected with %v", index, err)
			}
			drop := "DROP INDEX strange ON orders"
			if d.name == "sqlite" {
				drop = "DROP INDEX strange"
			}
			_, err = d.writers.ExecContext(t.Context(), drop)
			noErr(t, err)
		}
		states, err := store.Persist(t.Context(), []order.Accepted{second})
		allStates(t, states, err, 1, order.Confirmed)
		_, err = store.Persist(t.Context(), []order.Accepted{accepted(3, 2, 41)})
		if !errors.Is(err, order.ErrAlreadyOrdered) {
			t.Errorf("a second order: %v", err)
		}
	})
}
