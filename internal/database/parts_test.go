package database

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// partedStocks are the strategies whose stock is in parts.
var partedStocks = []voucher.Stock{voucher.StockRows, voucher.StockUnits}

// parted runs fn for every engine and each of the strategies, with voucher 1.
func parted(t *testing.T, stock int64, fn func(t *testing.T, d *DB, v *voucher.Voucher)) {
	t.Helper()
	engines(t, func(t *testing.T, d *DB) {
		for _, strategy := range partedStocks {
			t.Run(string(strategy), func(t *testing.T) {
				wipe(t, d)
				v := newVoucher(1, stock)
				v.Policy.Stock = strategy
				fail.NowIf(t, d.Vouchers().CreateVoucher(t.Context(), v))
				fn(t, d, v)
			})
		}
	})
}

// buyPart places an order as the locked flow does.
func buyPart(ctx context.Context, d *DB, v *voucher.Voucher, o order.Order) error {
	return d.Orders().Transact(ctx, func(ctx context.Context, tx order.Tx) error {
		take, part := tx.DecrementRow, v.FirstPart(o.UserID)
		if v.Policy.Stock == voucher.StockUnits {
			take = tx.TakeUnit
		}
		return errors.Join(take(ctx, v.ID, part), tx.Insert(ctx, o, true))
	})
}

// More buyers than units, each twice at the same moment: all units are sold, and nobody is told "sold out" before that.
func TestPartsSellEachUnitOnce(t *testing.T) {
	const stock, buyers = 37, 60
	parted(t, stock, func(t *testing.T, d *DB, v *voucher.Voucher) {
		wantStock(t, d, 1, stock, 0)
		got := countErrs(t, runAtOnce(2*buyers, func(i int) error {
			return buyPart(t.Context(), d, v, newOrder(int64(i+1), 1, int64(i%buyers+1)))
		}), nil, voucher.ErrSoldOut, order.ErrAlreadyOrdered)
		fail.Unequal(t, got[nil], stock, "orders")
		wantAudit(t, d, order.Audit{InitialStock: stock, Orders: stock, DistinctUsers: stock})
		wantStock(t, d, 1, 0, 0)
		wantNoOpenTransaction(t, d)
	})
}

// A buyer whose own part is empty finds what is left, wherever it is.
func TestStrandedStockIsFound(t *testing.T) {
	parted(t, 40, func(t *testing.T, d *DB, v *voucher.Voucher) {
		for n, only := range []string{"UPDATE stock_parts SET stock = CASE WHEN part = 11 THEN 1 ELSE 0 END", "UPDATE vouchers SET stock = 1"} {
			fail.NowIf(t, fail.Of(d.singles.ExecContext(t.Context(), only)))
			user := int64(0)
			for v.FirstPart(user) <= 11 { // units are looked for from there on
				user++
			}
			user += int64(1000 * n)
			wantStock(t, d, 1, 1, 0)
			fail.NowIf(t, buyPart(t.Context(), d, v, newOrder(100+user, 1, 10_000+user)))
			fail.Unless(t, buyPart(t.Context(), d, v, newOrder(101+user, 1, 10_001+user)), voucher.ErrSoldOut)
		}
	})
}

// A unit that comes back is sold again, once, and late money takes one from wherever there is one.
func TestPartsThroughAnOrdersLife(t *testing.T) {
	parted(t, 2, func(t *testing.T, d *DB, v *voucher.Voucher) {
		wipePayments(t, d)
		buy := func(id int64) error {
			return buyPart(t.Context(), d, v, newUnpaid(id, 1, 100+id, time.Now().Add(time.Hour)))
		}
		fail.NowIf(t, buy(1))
		fail.NowIf(t, buy(2))
		fail.Unless(t, buy(3), voucher.ErrSoldOut)
		cancelOrders(t, d, 1, 1)
		wantAudit(t, d, order.Audit{InitialStock: 2, Stock: 1, Orders: 1, DistinctUsers: 1})
		fail.NowIf(t, buy(4))
		fail.Unless(t, buy(5), voucher.ErrSoldOut)
		settles(t, d, receipt(fmt.Sprint("none left ", v.Policy.Stock), 1), order.Settlement{Outcome: order.RefundNoStock})

		fail.NowIf(t, fail.Of(d.singles.ExecContext(t.Context(), "UPDATE stock_parts SET stock = 1 WHERE part = 1")))
		if v.Policy.Stock == voucher.StockUnits { // its row is gone
			fail.NowIf(t, fail.Of(d.singles.ExecContext(t.Context(), "INSERT INTO stock_parts (voucher_id, part, stock) VALUES (1, 1, 1)")))
		}
		cancelOrders(t, d, 2)
		fail.NowIf(t, fail.Of(d.singles.ExecContext(t.Context(), "UPDATE vouchers SET stock = 0")))
		if got, err := d.Lifecycle().MarkPaid(t.Context(), receipt(fmt.Sprint("late ", v.Policy.Stock), 2)); err != nil || got.Outcome != order.SettledLate {
			t.Errorf("late money: %+v, %v", got, err)
		}
		fail.Unless(t, buy(6), voucher.ErrSoldOut)
	})
}

// Whatever is bought, cancelled and added, in any order: what is left and what is ordered make up the stock, and a
// buyer is refused only if nothing is left.
func TestPartsAddUp(t *testing.T) {
	parted(t, 5, func(t *testing.T, d *DB, v *voucher.Voucher) {
		id := int64(0)
		rapid.Check(t, func(rt *rapid.T) {
			wipe(t, d)
			wipePayments(t, d)
			v.InitialStock = rapid.Int64Range(1, 9).Draw(rt, "stock")
			v.Stock = v.InitialStock
			fail.NowIf(t, d.Vouchers().CreateVoucher(t.Context(), v))
			left := v.Stock
			var held []int64
			for _, cancel := range rapid.SliceOfN(rapid.Bool(), 1, 15).Draw(rt, "cancels") {
				if cancel && len(held) > 0 {
					i := rapid.IntRange(0, len(held)-1).Draw(rt, "which")
					cancelOrders(t, d, held[i])
					held, left = append(held[:i], held[i+1:]...), left+1
					continue
				}
				id++
				user := rapid.Int64Range(1, 1<<62).Draw(rt, "user")
				err := buyPart(t.Context(), d, v, newUnpaid(id, 1, user, time.Now().Add(time.Hour)))
				switch {
				case errors.Is(err, order.ErrAlreadyOrdered):
				case left == 0 && !errors.Is(err, voucher.ErrSoldOut) || left > 0 && err != nil:
					rt.Fatalf("%d are left: %v", left, err)
				case left > 0:
					held, left = append(held, id), left-1
				}
			}
			a, err := d.Orders().Audit(t.Context(), 1)
			if err != nil || a.Stock != left || a.Orders != int64(len(held)) || !a.Balanced() {
				rt.Fatalf("%+v, %v; want %d left", a, err, left)
			}
		})
	})
}

// wipePayments forgets the money of other tests.
func wipePayments(t *testing.T, d *DB) {
	t.Helper()
	for _, table := range []string{"order_payments", "payments", "returned_orders"} {
		fail.NowIf(t, fail.Of(d.singles.ExecContext(t.Context(), "DELETE FROM "+table)))
	}
}
