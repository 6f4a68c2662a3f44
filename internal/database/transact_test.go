package database

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// noneAtWork fails unless every writer's connection is back in its pool and no
// transaction is open on the server.
func noneAtWork(t *testing.T, d *DB) {
	t.Helper()
	if n := d.writers.Stats().InUse; n != 0 {
		t.Errorf("%d writers are still in use", n)
	}
	if d.name != "mysql" {
		// Who can begin to write proves that nobody else is at it.
		conn, err := d.writers.Conn(context.Background())
		wantErr(t, err)
		defer conn.Close()
		_, err = conn.ExecContext(context.Background(), "BEGIN IMMEDIATE")
		wantErr(t, err)
		_, err = conn.ExecContext(context.Background(), "ROLLBACK")
		wantErr(t, err)
		return
	}
	eventually(t, "no transaction is open on the server", func() bool {
		var open int
		const query = "SELECT COUNT(*) FROM information_schema.innodb_trx"
		wantErr(t, d.readers.QueryRowContext(context.Background(), query).Scan(&open))
		return open == 0
	})
}

func TestFailureRollsBack(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		onSale(t, d, 1, 5)
		mine := errors.New("changed my mind")
		wantErr(t, within(t, d, func(ctx context.Context, tx order.Tx) error {
			if err := tx.Insert(ctx, newOrder(1, 1, 42), true); err != nil {
				return err
			}
			if err := tx.Decrement(ctx, 1); err != nil {
				return err
			}
			return mine
		}), mine)
		wantAudit(t, d, order.Audit{InitialStock: 5, Stock: 5})
		noneAtWork(t, d)
	})
}

func TestPanicRollsBack(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		onSale(t, d, 1, 5)
		func() {
			defer func() {
				if recover() != "boom" {
					t.Error("the panic did not come through")
				}
			}()
			_ = within(t, d, func(ctx context.Context, tx order.Tx) error {
				wantErr(t, sent(ctx, tx, tx.Decrement(ctx, 1)))
				panic("boom")
			})
		}()
		wantStock(t, d, 1, 5, 0)
		noneAtWork(t, d)
	})
}

func TestCancelledInTheMiddle(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		onSale(t, d, 1, 5)
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
					if err := sent(ctx, tx, tx.Decrement(ctx, 1)); err != nil {
						return err
					}
					cancel()
					return after(ctx, tx)
				}), context.Canceled)
				wantStock(t, d, 1, 5, 0)
				noneAtWork(t, d)
			})
		}
	})
}

func TestDeadlineWhileWaitingForARow(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		onSale(t, d, 1, 5)
		wantErr(t, within(t, d, func(ctx context.Context, tx order.Tx) error {
			if err := sent(ctx, tx, tx.Decrement(ctx, 1)); err != nil {
				return err
			}
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			wantErr(t, buy(short, d, newOrder(1, 1, 42), true), context.DeadlineExceeded)
			return nil
		}))
		wantAudit(t, d, order.Audit{InitialStock: 5, Stock: 4})
		noneAtWork(t, d)
	})
}

// Nothing is held before the first write: on a pool of one writer, two can be
// inside at once, waiting for each other.
func TestNoConnectionIsHeldBeforeTheFirstWrite(t *testing.T) {
	testkit.SQLEngines(t, func(t *testing.T, where testkit.Database) {
		c := configOf(where)
		c.MaxWriters, c.MaxReaders = 1, 1
		d := openMigrated(t, c)
		onSale(t, d, 1, 5)
		both := newBarrier(2)
		for _, err := range rush(2, func(i int) error {
			return within(t, d, func(ctx context.Context, tx order.Tx) error {
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
	testkit.SQLEngines(t, func(t *testing.T, where testkit.Database) {
		c := configOf(where)
		c.MaxWriters, c.MaxReaders = 1, 1
		d := openMigrated(t, c)
		onSale(t, d, 1, 30)
		for _, err := range rush(30, func(i int) error {
			return buy(t.Context(), d, newOrder(int64(i+1), 1, int64(i+1)), true)
		}) {
			wantErr(t, err)
		}
		wantAudit(t, d, order.Audit{InitialStock: 30, Orders: 30, DistinctUsers: 30})

		t.Run("and who waits too long is told by the context", func(t *testing.T) {
			wantErr(t, within(t, d, func(ctx context.Context, tx order.Tx) error {
				if err := sent(ctx, tx, tx.SetStock(ctx, 1, 1)); err != nil {
					return err
				}
				short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
				defer cancel()
				wantErr(t, buy(short, d, newOrder(99, 1, 99), true), context.DeadlineExceeded)
				return nil
			}))
		})
	})
}

func TestTransactionThatOnlyReadsNeedsNoWriter(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		onSale(t, d, 1, 5)
		wantErr(t, within(t, d, func(ctx context.Context, tx order.Tx) error {
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
		onSale(t, d, 1, 5)
		var escaped order.Tx
		wantErr(t, within(t, d, func(ctx context.Context, tx order.Tx) error {
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

// Of two writes that go out with the commit, none happens unless both do.
func TestWholeTransactionInOneTrip(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		onSale(t, d, 1, 1)
		sell := func(o order.Order) error {
			return within(t, d, func(ctx context.Context, tx order.Tx) error {
				return errors.Join(tx.Decrement(ctx, o.VoucherID), tx.Insert(ctx, o, true))
			})
		}
		wantErr(t, sell(newOrder(1, 1, 42)))
		wantErr(t, sell(newOrder(2, 1, 43)), voucher.ErrSoldOut)
		wantErr(t, sell(newOrder(3, 7, 43)), voucher.ErrNotFound)
		wantAudit(t, d, order.Audit{InitialStock: 1, Orders: 1, DistinctUsers: 1})

		onSale(t, d, 2, 5)
		wantErr(t, sell(newOrder(4, 2, 42)))
		wantErr(t, sell(newOrder(5, 2, 42)), order.ErrAlreadyOrdered)
		wantErr(t, sell(newOrder(4, 2, 43)), order.ErrAlreadyOrdered) // the id
		wantStock(t, d, 2, 4, 1)
		noneAtWork(t, d)
	})
}

// Two writes in one trip need not be the flow's.
func TestOneTripOfOtherWrites(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		onSale(t, d, 1, 5)
		wantErr(t, within(t, d, func(ctx context.Context, tx order.Tx) error {
			return errors.Join(tx.Insert(ctx, newOrder(1, 1, 42), true), tx.Insert(ctx, newOrder(2, 1, 43), true))
		}))
		wantAudit(t, d, order.Audit{InitialStock: 5, Stock: 5, Orders: 2, DistinctUsers: 2})
		wantErr(t, within(t, d, func(ctx context.Context, tx order.Tx) error {
			return errors.Join(tx.SetStock(ctx, 1, -1), tx.Insert(ctx, newOrder(3, 1, 44), true))
		}), voucher.ErrSoldOut)
		wantErr(t, within(t, d, func(ctx context.Context, tx order.Tx) error {
			return errors.Join(tx.DecrementFenced(ctx, 1, 7), tx.Insert(ctx, newOrder(3, 1, 44), true))
		}))
		wantErr(t, within(t, d, func(ctx context.Context, tx order.Tx) error {
			return errors.Join(tx.DecrementFenced(ctx, 1, 6), tx.Insert(ctx, newOrder(4, 1, 45), true))
		}), order.ErrStale)
		wantAudit(t, d, order.Audit{InitialStock: 5, Stock: 4, Orders: 3, DistinctUsers: 3})
		noneAtWork(t, d)
	})
}

// A server that counts otherwise, as if none was found before, gets no order
// confirmed.
func TestDecrementWithoutItsOrderIsNoSuccess(t *testing.T) {
	servers(t, func(t *testing.T, where testkit.Database) {
		d := openMigrated(t, configOf(where))
		onSale(t, d, 1, 5)
		wantErr(t, within(t, d, func(ctx context.Context, x order.Tx) error {
			err := errors.Join(x.Decrement(ctx, 1), x.Insert(ctx, newOrder(1, 1, 42), true))
			insert := &x.(*tx).pending[1]
			insert.after = strings.ReplaceAll(insert.after, "ROW_COUNT() = 1", "ROW_COUNT() = 7")
			return err
		}), errHalf)
		noneAtWork(t, d)
	})
}

// What the database refused does not undo what came before it, unless fn says so.
func TestRefusedStatementLeavesTheRest(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		onSale(t, d, 1, 1)
		wantErr(t, within(t, d, func(ctx context.Context, tx order.Tx) error {
			wantErr(t, sent(ctx, tx, tx.Insert(ctx, newOrder(1, 1, 42), true)))
			wantErr(t, sent(ctx, tx, tx.Insert(ctx, newOrder(2, 1, 42), true)), order.ErrAlreadyOrdered)
			wantErr(t, sent(ctx, tx, tx.SetStock(ctx, 1, -1)), voucher.ErrSoldOut)
			return tx.Decrement(ctx, 1)
		}))
		wantAudit(t, d, order.Audit{InitialStock: 1, Orders: 1, DistinctUsers: 1})
	})
}
