package database

import (
	"context"
	"errors"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// wantNoOpenTransaction fails unless every writer's connection is back in its pool and no
// transaction is open in the database.
func wantNoOpenTransaction(t *testing.T, d *DB) {
	t.Helper()
	if n := d.writers.Stats().InUse; n != 0 {
		t.Errorf("%d writers are still in use", n)
	}
	if d.name != "mysql" {
		// If a write transaction can begin, no other one is open.
		conn, err := d.writers.Conn(context.Background())
		wantErr(t, err)
		defer conn.Close()
		_, err = conn.ExecContext(context.Background(), "BEGIN IMMEDIATE")
		wantErr(t, err)
		_, err = conn.ExecContext(context.Background(), "ROLLBACK")
		wantErr(t, err)
		return
	}
	wantErr(t, testkit.NoTransaction(t.Context(), d.writers, time.Minute, "vouchers", "orders"))
}

func TestFailureRollsBack(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 5)
		mine := errors.New("changed my mind")
		wantErr(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
			if err := tx.Insert(ctx, newOrder(1, 1, 42), true); err != nil {
				return err
			}
			if err := tx.Decrement(ctx, 1); err != nil {
				return err
			}
			return mine
		}), mine)
		wantAudit(t, d, order.Audit{InitialStock: 5, Stock: 5})
		wantNoOpenTransaction(t, d)
	})
}

func TestPanicRollsBack(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 5)
		func() {
			defer func() {
				if recover() != "boom" {
					t.Error("the panic did not come through")
				}
			}()
			_ = transact(t, d, func(ctx context.Context, tx order.Tx) error {
				wantErr(t, flushed(ctx, tx, tx.Decrement(ctx, 1)))
				panic("boom")
			})
		}()
		wantStock(t, d, 1, 5, 0)
		wantNoOpenTransaction(t, d)
	})
}

func TestCancelledInTheMiddle(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 5)
		for name, after := range map[string]func(ctx context.Context, tx order.Tx) error{
			"then another statement": func(ctx context.Context, tx order.Tx) error {
				return tx.Insert(ctx, newOrder(1, 1, 42), true)
			},
			"then success": func(context.Context, order.Tx) error { return nil },
		} {
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				wantErr(t, d.Orders().Transact(ctx, func(ctx context.Context, tx order.Tx) error {
					if err := flushed(ctx, tx, tx.Decrement(ctx, 1)); err != nil {
						return err
					}
					cancel()
					return after(ctx, tx)
				}), context.Canceled)
				wantStock(t, d, 1, 5, 0)
				wantNoOpenTransaction(t, d)
			})
		}
	})
}

func TestDeadlineWhileWaitingForARow(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 5)
		wantErr(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
			if err := flushed(ctx, tx, tx.Decrement(ctx, 1)); err != nil {
				return err
			}
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			wantErr(t, placeOrder(short, d, newOrder(1, 1, 42), true), context.DeadlineExceeded)
			return nil
		}))
		wantAudit(t, d, order.Audit{InitialStock: 5, Stock: 4})
		wantNoOpenTransaction(t, d)
	})
}

// No connection is held before the first write: with a pool of one writer, two transactions can run and wait for
// each other.
func TestNoConnectionIsHeldBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	testkit.SQLEngines(t, func(t *testing.T, where testkit.Database) {
		c := databaseConfig(where)
		c.MaxWriters, c.MaxReaders = 1, 1
		d := openMigrated(t, c)
		createVoucher(t, d, 1, 5)
		both := newBarrier(2)
		for _, err := range runAtOnce(2, func(i int) error {
			return transact(t, d, func(ctx context.Context, tx order.Tx) error {
				if _, err := tx.Ordered(ctx, 1, int64(i)); err != nil {
					return err
				}
				if err := both.wait(ctx); err != nil {
					return err
				}
				return tx.Decrement(ctx, 1)
			})
		}) {
			wantErr(t, err)
		}
		wantStock(t, d, 1, 3, 2)
	})
}

func TestPoolOfOneServesMany(t *testing.T) {
	t.Parallel()
	testkit.SQLEngines(t, func(t *testing.T, where testkit.Database) {
		c := databaseConfig(where)
		c.MaxWriters, c.MaxReaders = 1, 1
		d := openMigrated(t, c)
		createVoucher(t, d, 1, 30)
		for _, err := range runAtOnce(30, func(i int) error {
			return placeOrder(t.Context(), d, newOrder(int64(i+1), 1, int64(i+1)), true)
		}) {
			wantErr(t, err)
		}
		wantAudit(t, d, order.Audit{InitialStock: 30, Orders: 30, DistinctUsers: 30})

		t.Run("and a wait that is too long ends with the context", func(t *testing.T) {
			wantErr(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
				if err := flushed(ctx, tx, tx.SetStock(ctx, 1, 1)); err != nil {
					return err
				}
				short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
				defer cancel()
				wantErr(t, placeOrder(short, d, newOrder(99, 1, 99), true), context.DeadlineExceeded)
				return nil
			}))
		})
	})
}

func TestTransactionThatOnlyReadsNeedsNoWriter(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 5)
		wantErr(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
			_, _, err := tx.StockOf(ctx, 1)
			if n := d.writers.Stats().InUse; n != 0 {
				t.Errorf("%d writers in use", n)
			}
			return err
		}))
	})
}

func TestTransactionIsOverWithItsFunction(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 5)
		var escaped order.Tx
		wantErr(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
			escaped = tx
			return tx.Decrement(ctx, 1)
		}))
		if err := escaped.Decrement(t.Context(), 1); err == nil {
			t.Error("wrote after the commit")
		}
		if _, err := escaped.Ordered(t.Context(), 1, 1); err == nil {
			t.Error("read after the commit")
		}
		wantStock(t, d, 1, 4, 1)
	})
}

// Of two writes that are sent with the commit, either both take effect or none.
func TestWholeTransactionInOneTrip(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 1)
		sell := func(o order.Order) error {
			return transact(t, d, func(ctx context.Context, tx order.Tx) error {
				return errors.Join(tx.Decrement(ctx, o.VoucherID), tx.Insert(ctx, o, true))
			})
		}
		wantErr(t, sell(newOrder(1, 1, 42)))
		wantErr(t, sell(newOrder(2, 1, 43)), voucher.ErrSoldOut)
		wantErr(t, sell(newOrder(3, 7, 43)), voucher.ErrNotFound)
		wantAudit(t, d, order.Audit{InitialStock: 1, Orders: 1, DistinctUsers: 1})

		createVoucher(t, d, 2, 5)
		wantErr(t, sell(newOrder(4, 2, 42)))
		wantErr(t, sell(newOrder(5, 2, 42)), order.ErrAlreadyOrdered)
		wantErr(t, sell(newOrder(4, 2, 43)), order.ErrAlreadyOrdered) // the id
		wantStock(t, d, 2, 4, 1)
		wantNoOpenTransaction(t, d)
	})
}

// One round trip also works for two other writes than those of the order flow.
func TestOneTripOfOtherWrites(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 5)
		wantErr(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
			return errors.Join(tx.Insert(ctx, newOrder(1, 1, 42), true), tx.Insert(ctx, newOrder(2, 1, 43), true))
		}))
		wantAudit(t, d, order.Audit{InitialStock: 5, Stock: 5, Orders: 2, DistinctUsers: 2})
		wantErr(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
			return errors.Join(tx.SetStock(ctx, 1, -1), tx.Insert(ctx, newOrder(3, 1, 44), true))
		}), voucher.ErrSoldOut)
		wantErr(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
			return errors.Join(tx.DecrementFenced(ctx, 1, 7), tx.Insert(ctx, newOrder(3, 1, 44), true))
		}))
		wantErr(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
			return errors.Join(tx.DecrementFenced(ctx, 1, 6), tx.Insert(ctx, newOrder(4, 1, 45), true))
		}), order.ErrStale)
		wantAudit(t, d, order.Audit{InitialStock: 5, Stock: 4, Orders: 3, DistinctUsers: 3})
		wantNoOpenTransaction(t, d)
	})
}

// A refused statement does not undo the statements before it, unless fn returns the error.
func TestRefusedStatementLeavesTheRest(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 1)
		wantErr(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
			wantErr(t, flushed(ctx, tx, tx.Insert(ctx, newOrder(1, 1, 42), true)))
			wantErr(t, flushed(ctx, tx, tx.Insert(ctx, newOrder(2, 1, 42), true)), order.ErrAlreadyOrdered)
			wantErr(t, flushed(ctx, tx, tx.SetStock(ctx, 1, -1)), voucher.ErrSoldOut)
			return tx.Decrement(ctx, 1)
		}))
		wantAudit(t, d, order.Audit{InitialStock: 1, Orders: 1, DistinctUsers: 1})
	})
}
