package database

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// wantNoOpenTransaction fails unless every writer's connection is back in its pool and no transaction is open in the
// database.
func wantNoOpenTransaction(t *testing.T, d *DB) {
	t.Helper()
	fail.Unequal(t, d.writers.Stats().InUse, 0, "writers are still in use")
	if d.name != "mysql" {
		// If a write transaction can begin, no other one is open.
		conn, err := d.writers.Conn(context.Background())
		fail.NowIf(t, err)
		defer conn.Close()
		fail.NowIf(t, fail.Of(conn.ExecContext(context.Background(), "BEGIN IMMEDIATE")))
		fail.NowIf(t, fail.Of(conn.ExecContext(context.Background(), "ROLLBACK")))
		return
	}
	fail.NowIf(t, testkit.NoTransaction(t.Context(), d.writers, time.Minute, "vouchers", "orders"))
}

// A transaction that fails, panics or is cancelled leaves nothing behind, and is over with its function.
func TestTransactionThatDoesNotCommit(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 5)
		mine := errors.New("changed my mind")
		take := func(ctx context.Context, tx order.Tx) error { return flushed(ctx, tx, tx.Decrement(ctx, 1)) }
		insert := func(ctx context.Context, tx order.Tx) error { return tx.Insert(ctx, newOrder(1, 1, 42), true) }
		for name, tc := range map[string]struct {
			fn   func(ctx context.Context, cancel func(), tx order.Tx) error
			want error
		}{
			"an error": {func(ctx context.Context, _ func(), tx order.Tx) error {
				return cmp.Or(insert(ctx, tx), tx.Decrement(ctx, 1), mine)
			}, mine},
			// As from a lock that is kept in a table: only a transaction's own collisions are repeated.
			"the deadlock of another transaction": {func(ctx context.Context, _ func(), tx order.Tx) error {
				return errors.Join(insert(ctx, tx), errDeadlock)
			}, errDeadlock},
			"a panic": {func(ctx context.Context, _ func(), tx order.Tx) error {
				fail.NowIf(t, take(ctx, tx))
				panic(mine)
			}, mine},
			"cancelled, then another statement": {func(ctx context.Context, cancel func(), tx order.Tx) error {
				fail.NowIf(t, take(ctx, tx))
				cancel()
				return insert(ctx, tx)
			}, context.Canceled},
			"cancelled, then success": {func(ctx context.Context, cancel func(), tx order.Tx) error {
				fail.NowIf(t, take(ctx, tx))
				cancel()
				return nil
			}, context.Canceled},
		} {
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var escaped order.Tx
				attempts := 0
				err := func() (err error) {
					defer func() {
						if p := recover(); p != nil {
							err = p.(error) // the panic comes through
						}
					}()
					return d.Orders().Transact(ctx, func(ctx context.Context, tx order.Tx) error {
						escaped = tx
						attempts++
						return tc.fn(ctx, cancel, tx)
					})
				}()
				if fail.Unless(t, err, tc.want); attempts != 1 {
					t.Errorf("%d attempts", attempts)
				}
				wantNoOpenTransaction(t, d)
				_, read := escaped.Ordered(t.Context(), 1, 1)
				if escaped.Decrement(t.Context(), 1) == nil || read == nil {
					t.Error("wrote or read after the end")
				}
				wantStock(t, d, 1, 5, 0)
				wantAudit(t, d, order.Audit{InitialStock: 5, Stock: 5})
			})
		}
	})
}

// No connection is held before the first write: with a pool of one writer, two transactions can run and wait for each
// other. One that only reads needs none. A transaction waits for the connection, or in a larger pool for the row, until
// its context ends.
func TestPools(t *testing.T) {
	t.Parallel()
	testkit.SQLEngines(t, func(t *testing.T, where testkit.Database) {
		c := databaseConfig(where)
		c.LockWait = time.Second
		large := openMigrated(t, c)
		c.MaxWriters, c.MaxReaders = 1, 1
		d := open(t, c)
		createVoucher(t, d, 1, 32)
		both := newBarrier(2)
		allAtOnce(t, 2, func(i int) error {
			return transact(t, d, func(ctx context.Context, tx order.Tx) error {
				if _, err := tx.Ordered(ctx, 1, int64(i)); err != nil {
					return err
				}
				if err := both.wait(ctx); err != nil {
					return err
				}
				return tx.Decrement(ctx, 1)
			})
		})
		fail.NowIf(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
			_, _, err := tx.StockOf(ctx, 1)
			fail.Unequal(t, d.writers.Stats().InUse, 0, "writers in use")
			return err
		}))

		allAtOnce(t, 30, func(i int) error {
			return placeOrder(t.Context(), d, newOrder(int64(i+1), 1, int64(i+1)), true)
		})
		wantStock(t, d, 1, 0, 32)
		for _, d := range []*DB{d, large} {
			fail.NowIf(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
				fail.NowIf(t, flushed(ctx, tx, tx.SetStock(ctx, 1, 1)))
				short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				fail.Unless(t, placeOrder(short, d, newOrder(99, 1, 99), true), context.DeadlineExceeded)
				return nil
			}))

			wantNoOpenTransaction(t, d)
		}
		fail.Unless(t, fail.Of(d.Orders().Order(t.Context(), 99)), order.ErrNotFound)
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
		fail.NowIf(t, sell(newOrder(1, 1, 42)))
		fail.Unless(t, sell(newOrder(2, 1, 43)), voucher.ErrSoldOut)
		fail.Unless(t, sell(newOrder(3, 7, 43)), voucher.ErrNotFound)
		wantAudit(t, d, order.Audit{InitialStock: 1, Orders: 1, DistinctUsers: 1})

		createVoucher(t, d, 2, 5)
		fail.NowIf(t, sell(newOrder(4, 2, 42)))
		fail.Unless(t, sell(newOrder(5, 2, 42)), order.ErrAlreadyOrdered)
		fail.Unless(t, sell(newOrder(4, 2, 43)), order.ErrAlreadyOrdered) // the id
		wantStock(t, d, 2, 4, 1)

		// Two other writes than those of the order flow.
		createVoucher(t, d, 3, 5)
		both := func(want error, writes func(ctx context.Context, tx order.Tx) error, orders ...order.Order) {
			t.Helper()
			fail.Unless(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
				err := writes(ctx, tx)
				for _, o := range orders {
					err = errors.Join(err, tx.Insert(ctx, o, true))
				}
				return err
			}), want)

		}
		fenced := func(token uint64) func(ctx context.Context, tx order.Tx) error {
			return func(ctx context.Context, tx order.Tx) error { return tx.DecrementFenced(ctx, 3, token) }
		}
		both(nil, func(context.Context, order.Tx) error { return nil }, newOrder(6, 3, 42), newOrder(7, 3, 43))
		both(voucher.ErrSoldOut, func(ctx context.Context, tx order.Tx) error { return tx.SetStock(ctx, 3, -1) }, newOrder(8, 3, 44))
		both(nil, fenced(7), newOrder(8, 3, 44))
		both(order.ErrStale, fenced(6), newOrder(9, 3, 45))
		audit, err := d.Orders().Audit(t.Context(), 3)
		if want := (order.Audit{InitialStock: 5, Stock: 4, Orders: 3, DistinctUsers: 3}); err != nil || audit != want {
			t.Errorf("%+v, %v; want %+v", audit, err, want)
		}
		wantNoOpenTransaction(t, d)
	})
}

// A refused statement does not undo the statements before it, unless fn returns the error.
func TestRefusedStatementLeavesTheRest(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 1)
		fail.NowIf(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
			fail.NowIf(t, flushed(ctx, tx, tx.Insert(ctx, newOrder(1, 1, 42), true)))
			fail.Unless(t, flushed(ctx, tx, tx.Insert(ctx, newOrder(2, 1, 42), true)), order.ErrAlreadyOrdered)
			fail.Unless(t, flushed(ctx, tx, tx.SetStock(ctx, 1, -1)), voucher.ErrSoldOut)
			return tx.Decrement(ctx, 1)
		}))

		wantAudit(t, d, order.Audit{InitialStock: 1, Orders: 1, DistinctUsers: 1})
	})
}
