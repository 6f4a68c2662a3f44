package database

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"seckill/internal/admission/batch"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// More buyers than units, each twice at the same moment: all units are sold, and each order has an outcome of its own.
func TestGroupsSellEachUnitOnce(t *testing.T) {
	const stock, buyers = 137, 200
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, stock)
		got := countErrs(t, runAtOnce(2*buyers, func(i int) error {
			return fail.Of(d.Orders().PlaceGrouped(t.Context(), newOrder(int64(i+1), 1, int64(i%buyers+1)), 0))
		}), nil, voucher.ErrSoldOut, order.ErrAlreadyOrdered)
		fail.Unequal(t, got[nil], stock, "orders")
		wantAudit(t, d, order.Audit{InitialStock: stock, Orders: stock, DistinctUsers: stock})
		wantStock(t, d, 1, 0, stock)
		wantNoOpenTransaction(t, d)
	})
}

// processed places orders as one batch of a queue, and returns their outcomes.
func processed(d *DB, orders []order.Order) []error {
	requests := make([]*batch.Request[*grouped], len(orders))
	for i, o := range orders {
		requests[i] = batch.NewRequest(context.Background(), &grouped{order: o})
	}
	_ = (&group{db: d}).Process(requests)
	errs := make([]error, len(orders))
	for i, r := range requests {
		errs[i] = <-r.Answered()
	}
	return errs
}

// Whatever is in a group, its orders fare as if they had come one after the other: a user's second order, an order that
// exists already, one that is to be paid, and those for which nothing is left.
func TestGroupIsAsGoodAsOneByOne(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		rapid.Check(t, func(rt *rapid.T) {
			wipe(t, d)
			wipePayments(t, d)
			stock := rapid.Int64Range(1, 12).Draw(rt, "stock")
			createVoucher(t, d, 1, stock+2)
			pays := rapid.Bool().Draw(rt, "pays")
			make1 := func(id, user int64) order.Order {
				if pays {
					return newUnpaid(id, 1, user, time.Now().Add(time.Hour))
				}
				return newOrder(id, 1, user)
			}
			fail.NowIf(t, placeOrder(t.Context(), d, make1(1, 1), true)) // users 1 and 2 have orders
			fail.NowIf(t, placeOrder(t.Context(), d, make1(2, 2), true))
			orders := make([]order.Order, rapid.IntRange(1, 20).Draw(rt, "orders"))
			sold := map[int64]bool{}
			for i := range orders {
				id := int64(10 + i)
				if rapid.IntRange(0, 9).Draw(rt, "again") == 0 {
					id = rapid.Int64Range(1, 2).Draw(rt, "id") // the order of a user whose answer was lost, or of somebody else
				}
				orders[i] = make1(id, rapid.Int64Range(1, 15).Draw(rt, "user"))
			}
			errs := processed(d, orders)
			ok := int64(0)
			for i, o := range orders {
				if errs[i] == nil {
					if ok++; sold[o.UserID] || o.UserID <= 2 || o.ID <= 2 {
						rt.Fatalf("%+v is a second order", o)
					}
					sold[o.UserID] = true
				}
			}
			for i, o := range orders {
				known := o.UserID <= 2 || o.ID <= 2 || sold[o.UserID]
				switch {
				case errs[i] == nil:
				case errors.Is(errs[i], order.ErrAlreadyOrdered) && known:
				case errors.Is(errs[i], voucher.ErrSoldOut) && ok == stock:
				default:
					rt.Fatalf("%+v: %v, with %d of %d sold", o, errs[i], ok, stock)
				}
			}
			a, err := d.Orders().Audit(t.Context(), 1)
			if err != nil || !a.Balanced() || a.Orders != ok+2 || a.Stock != stock-ok {
				rt.Fatalf("%+v, %v; want %d orders", a, err, ok+2)
			}
			var unpaid int64
			fail.NowIf(t, d.readers.QueryRow("SELECT COUNT(*) FROM order_payments").Scan(&unpaid))
			if pays && unpaid != a.Orders {
				rt.Fatalf("%d of %d orders can be paid", unpaid, a.Orders)
			}
		})
	})
}

// A buyer who is gone before the group begins has bought nothing. One who goes afterwards is told the outcome.
func TestBuyerLeavesAGroup(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 10)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		stays := batch.NewRequest(t.Context(), &grouped{order: newOrder(1, 1, 1)})
		left := batch.NewRequest(gone, &grouped{order: newOrder(2, 1, 2)})
		_ = (&group{db: d}).Process([]*batch.Request[*grouped]{stays, left})
		fail.NowIf(t, <-stays.Answered())
		fail.Unless(t, <-left.Answered(), context.Canceled)
		wantAudit(t, d, order.Audit{InitialStock: 10, Stock: 9, Orders: 1, DistinctUsers: 1})
		fail.Unless(t, fail.Of(d.Orders().PlaceGrouped(t.Context(), newOrder(3, 99, 3), 0)), voucher.ErrNotFound)
		errs := processed(d, []order.Order{newOrder(4, 99, 4), newOrder(5, 99, 5)})
		fail.Unless(t, errors.Join(errs...), voucher.ErrNotFound)
	})
}

// A panic is the outcome of the group, and not the end of the process.
func TestPanicInAGroup(t *testing.T) {
	d := &DB{config: Config{}.withDefaults()} // without a pool
	for _, err := range processed(d, []order.Order{newOrder(1, 1, 1), newOrder(2, 1, 2)}) {
		fail.Unless(t, err, order.ErrUnavailable)
	}
}

// A closed database refuses orders, and answers those that are under way.
func TestGroupsOfAClosedDatabase(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 100)
		errs := runAtOnce(50, func(i int) error {
			if i == 25 {
				d.groups.end()
			}
			return fail.Of(d.Orders().PlaceGrouped(t.Context(), newOrder(int64(i+1), 1, int64(i+1)), 0))
		})
		got := countErrs(t, errs, nil, order.ErrUnavailable)
		a, err := d.Orders().Audit(t.Context(), 1)
		fail.NowIf(t, err)
		fail.Unequal(t, a.Orders, int64(got[nil]), "orders")
		fail.Unless(t, fail.Of(d.Orders().PlaceGrouped(t.Context(), newOrder(99, 1, 99), 0)), order.ErrUnavailable)
	})
}

// An administrator has changed the voucher: orders that were decided by what it was before sell nothing, and those
// beside them in the group do.
func TestGroupOfAnOldRevision(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 10)
		_, err := d.Vouchers().ChangeVoucher(t.Context(), 1, 0, voucher.Change{AddStock: 1}, time.Now())
		fail.NowIf(t, err)
		var requests []*batch.Request[*grouped]
		for user, revision := range []int64{2, 1, 1, 2, 1} {
			id := int64(user + 1)
			requests = append(requests, batch.NewRequest(t.Context(), &grouped{order: newOrder(id, 1, id), revision: revision}))
		}
		_ = (&group{db: d}).Process(requests)
		for _, r := range requests {
			if err := <-r.Answered(); r.Value.revision == 2 {
				fail.NowIf(t, err)
			} else {
				fail.Unless(t, err, voucher.ErrChanged)
			}
		}
		wantAudit(t, d, order.Audit{InitialStock: 11, Stock: 9, Orders: 2, DistinctUsers: 2})
	})
}
