package database

import (
	"context"
	"errors"
	"testing"

	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// transact runs fn in a transaction.
func transact(t *testing.T, d *DB, fn func(ctx context.Context, tx order.Tx) error) error {
	t.Helper()
	return d.Orders().Transact(t.Context(), fn)
}

func wantStock(t *testing.T, d *DB, id, stock, version int64) {
	t.Helper()
	v, err := d.Vouchers().Voucher(context.Background(), id)
	fail.NowIf(t, err)
	if v.Stock != stock || v.Version != version {
		t.Errorf("stock %d, version %d; want %d, %d", v.Stock, v.Version, stock, version)
	}
}

func TestEachWayToTakeFromTheStock(t *testing.T) {
	type Tx = order.Tx
	decrement := func(ctx context.Context, tx Tx) error { return tx.Decrement(ctx, 1) }
	set := func(stock int64) func(context.Context, Tx) error {
		return func(ctx context.Context, tx Tx) error { return tx.SetStock(ctx, 1, stock) }
	}
	ifVersion := func(version int64) func(context.Context, Tx) error {
		return func(ctx context.Context, tx Tx) error { return tx.DecrementVersion(ctx, 1, version) }
	}
	fenced := func(token uint64) func(context.Context, Tx) error {
		return func(ctx context.Context, tx Tx) error { return tx.DecrementFenced(ctx, 1, token) }
	}
	type step struct {
		do   func(context.Context, Tx) error
		want error
	}
	tests := []struct {
		name           string
		stock          int64
		steps          []step
		left, versions int64
	}{
		{"conditional", 2, []step{{decrement, nil}, {decrement, nil}, {decrement, voucher.ErrSoldOut}}, 0, 2},
		{"set whatever it was", 5, []step{{set(9), nil}, {set(9), nil}}, 9, 2},
		{"set below nothing", 5, []step{{set(-1), voucher.ErrSoldOut}}, 5, 0},
		{"version", 2, []step{
			{ifVersion(0), nil},
			{ifVersion(0), order.ErrConflict},
			{ifVersion(7), order.ErrConflict},
			{ifVersion(1), nil},
			{ifVersion(2), voucher.ErrSoldOut},
			{ifVersion(0), voucher.ErrSoldOut},
		}, 0, 2},
		{"fenced", 3, []step{
			{fenced(10), nil},
			{fenced(9), order.ErrStale},
			{fenced(10), nil}, // re-entry writes with the same token
			{fenced(1 << 62), nil},
			{fenced(1 << 62), voucher.ErrSoldOut},
			{fenced(11), order.ErrStale},
		}, 0, 3},
	}
	engines(t, func(t *testing.T, d *DB) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				wipe(t, d)
				createVoucher(t, d, 1, test.stock)
				for n, step := range test.steps {
					fail.Unless(t, transact(t, d, step.do), step.want, "step %d", n+1)
				}
				wantStock(t, d, 1, test.left, test.versions)
			})
		}
	})
}

func wipe(t *testing.T, d *DB) {
	t.Helper()
	for _, table := range []string{"vouchers", "stock_parts", "orders", "admission_seqs"} {
		fail.NowIf(t, fail.Of(d.singles.ExecContext(t.Context(), "DELETE FROM "+table)))
	}
}

func TestNoSuchVoucher(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		for name, do := range map[string]func(ctx context.Context, tx order.Tx) error{
			"StockOf":          func(ctx context.Context, tx order.Tx) error { _, _, err := tx.StockOf(ctx, 1); return err },
			"Decrement":        func(ctx context.Context, tx order.Tx) error { return tx.Decrement(ctx, 1) },
			"SetStock":         func(ctx context.Context, tx order.Tx) error { return tx.SetStock(ctx, 1, 1) },
			"DecrementVersion": func(ctx context.Context, tx order.Tx) error { return tx.DecrementVersion(ctx, 1, 0) },
			"DecrementRow":     func(ctx context.Context, tx order.Tx) error { return tx.DecrementRow(ctx, 1, 0) },
			"TakeUnit":         func(ctx context.Context, tx order.Tx) error { return tx.TakeUnit(ctx, 1, 0) },
			"DecrementFenced":  func(ctx context.Context, tx order.Tx) error { return tx.DecrementFenced(ctx, 1, 1) },
		} {
			t.Run(name, func(t *testing.T) { fail.Unless(t, transact(t, d, do), voucher.ErrNotFound) })
		}
	})
}

func TestUniqueIsThePolicysChoice(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		insert := func(o order.Order, unique bool) error {
			return transact(t, d, func(ctx context.Context, tx order.Tx) error { return tx.Insert(ctx, o, unique) })
		}
		fail.NowIf(t, insert(newOrder(1, 1, 42), true))
		fail.Unless(t, insert(newOrder(2, 1, 42), true), order.ErrAlreadyOrdered)
		fail.Unless(t, insert(newOrder(1, 1, 43), true), order.ErrAlreadyOrdered) // the id
		fail.NowIf(t, insert(newOrder(3, 2, 42), true))                           // another voucher
		fail.NowIf(t, insert(newOrder(4, 1, 42), false))                          // not asked to be unique
		fail.NowIf(t, insert(newOrder(5, 1, 42), false))

		rejected := newOrder(6, 1, 44)
		rejected.Status = order.Rejected
		fail.NowIf(t, insert(rejected, true))
		for user, want := range map[int64]bool{42: true, 43: false, 44: false} {
			fail.NowIf(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
				has, err := tx.Ordered(ctx, 1, user)
				fail.Unequal(t, has, want, "user %d has ordered", user)
				return err
			}))

		}
		fail.NowIf(t, insert(newOrder(7, 1, 44), true)) // a rejected order does not count
	})
}

func TestTransactionSeesItsOwnWrites(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 5)
		fail.NowIf(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
			fail.NowIf(t, errors.Join(tx.Insert(ctx, newOrder(1, 1, 42), true), tx.Decrement(ctx, 1)))
			has, err := tx.Ordered(ctx, 1, 42)
			if err != nil || !has {
				t.Errorf("own order: %v, %v", has, err)
			}
			stock, version, err := tx.StockOf(ctx, 1)
			if err != nil || stock != 4 || version != 1 {
				t.Errorf("own stock: %d, version %d, %v", stock, version, err)
			}
			wantStock(t, d, 1, 5, 0)
			return nil
		}))

		wantStock(t, d, 1, 4, 1)
	})
}

// Twenty buyers at once: one gets the last unit, and one user gets one order.
func TestTwentyAtOnce(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 1)
		createVoucher(t, d, 2, 100)
		for name, tc := range map[string]struct {
			place func(i int64) order.Order
			want  error
		}{
			"the last unit": {func(i int64) order.Order { return newOrder(i+1, 1, i+1) }, voucher.ErrSoldOut},
			"one user":      {func(i int64) order.Order { return newOrder(i+100, 2, 42) }, order.ErrAlreadyOrdered},
		} {
			got := countErrs(t, runAtOnce(20, func(i int) error {
				return placeOrder(t.Context(), d, tc.place(int64(i)), true)
			}), nil, tc.want)
			if got[nil] != 1 {
				t.Errorf("%s: %d orders", name, got[nil])
			}
		}
		wantAudit(t, d, order.Audit{InitialStock: 1, Orders: 1, DistinctUsers: 1})
		wantStock(t, d, 2, 99, 1)
	})
}

// The weak policy must be weak on every engine: all buyers read the same stock before any of them writes.
func TestUnguardedLosesUpdates(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		const buyers = 8
		createVoucher(t, d, 1, buyers)
		allHaveRead := newBarrier(buyers)
		allAtOnce(t, buyers, func(i int) error {
			return transact(t, d, func(ctx context.Context, tx order.Tx) error {
				stock, _, err := tx.StockOf(ctx, 1)
				if err != nil {
					return err
				}
				if err := allHaveRead.wait(ctx); err != nil {
					return err
				}
				return errors.Join(tx.Insert(ctx, newOrder(int64(i+1), 1, int64(i+1)), true), tx.SetStock(ctx, 1, stock-1))
			})
		})
		wantAudit(t, d, order.Audit{InitialStock: buyers, Stock: buyers - 1, Orders: buyers, DistinctUsers: buyers})
	})
}
