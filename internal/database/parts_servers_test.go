package database

import (
	"context"
	"errors"
	"testing"

	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// The last unit is being bought by somebody else: a second buyer is not told "sold out" as long as that order may fail.
func TestLastUnitThatIsLockedIsNotSoldOut(t *testing.T) {
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		d := openMigrated(t, databaseConfig(where))
		for i, strategy := range partedStocks {
			v := newVoucher(int64(i+1), 1)
			v.Policy.Stock = strategy
			fail.NowIf(t, d.Vouchers().CreateVoucher(t.Context(), v))
			holding := make(chan struct{})
			errFails := errors.New("the order fails")
			errs := runAtOnce(2, func(n int) error {
				if n == 1 {
					<-holding
					return buyPart(t.Context(), d, v, newOrder(int64(10*i+2), v.ID, 2))
				}
				return transact(t, d, func(ctx context.Context, tx order.Tx) error {
					take := tx.DecrementRow
					if strategy == voucher.StockUnits {
						take = tx.TakeUnit
					}
					if err := flushed(ctx, tx, take(ctx, v.ID, 0)); err != nil {
						return err
					}
					close(holding)
					testkit.Until(t, "the other buyer waits for the row", func() bool {
						var n int
						const query = "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE '%stock_parts%'"
						fail.NowIf(t, d.readers.QueryRowContext(ctx, query).Scan(&n))
						return n > 0
					})
					return errFails
				})
			})
			fail.Unless(t, errs[0], errFails)
			fail.If(t, errs[1], strategy)
			wantNoOpenTransaction(t, d)
		}
	})
}

// partsFromTwoNodes sells parts on two nodes, which do not see each other's locks: one of two that take the same row is
// rolled back, and takes another one.
func partsFromTwoNodes(t *testing.T, here, there *DB) {
	const stock = 60
	for i, strategy := range partedStocks {
		v := newVoucher(int64(i+1), stock)
		v.Policy.Stock = strategy
		fail.NowIf(t, here.Vouchers().CreateVoucher(t.Context(), v))
		got := map[error]int{}
		for round := int64(0); got[nil] < stock && round < 20; round++ { // an order may give up after repeated collisions
			for err, n := range countErrs(t, runAtOnce(stock+10, func(n int) error {
				id := 1_000*round + int64(100*i+n+1)
				return buyPart(t.Context(), []*DB{here, there}[n%2], v, newOrder(id, v.ID, id))
			}), nil, voucher.ErrSoldOut, order.ErrUnavailable) {
				got[err] += n
			}
		}
		a, err := there.Orders().Audit(t.Context(), v.ID)
		fail.NowIf(t, err)
		if a.Orders != stock || a.Stock != 0 || !a.Balanced() || got[nil] != stock {
			t.Errorf("%s: %+v after %v", strategy, a, got)
		}
	}
}

// groupsFromTwoNodes sells a voucher in groups on two nodes. Their groups take turns at the voucher's row.
func groupsFromTwoNodes(t *testing.T, here, there *DB) {
	const stock = 60
	createVoucher(t, here, 1, stock)
	got := map[error]int{}
	for round := int64(0); got[nil] < stock && round < 20; round++ { // a group may give up after repeated collisions
		for err, n := range countErrs(t, runAtOnce(stock+10, func(n int) error {
			id := 1_000*round + int64(n+1)
			return fail.Of([]*DB{here, there}[n%2].Orders().PlaceGrouped(t.Context(), newOrder(id, 1, id), 0))
		}), nil, voucher.ErrSoldOut, order.ErrUnavailable) {
			got[err] += n
		}
	}
	t.Logf("%d refused after repeated collisions", got[order.ErrUnavailable])
	fail.Unequal(t, got[nil], stock, "orders")
	wantAudit(t, there, order.Audit{InitialStock: stock, Orders: stock, DistinctUsers: stock})
}
