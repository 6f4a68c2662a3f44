package database

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// change changes voucher 1, drained by an epoch.
func change(ctx context.Context, d *DB, drained int64, c voucher.Change) error {
	c.By = voucher.Author{Name: "admin", Address: "::1", RequestID: "R"}
	_, err := d.Vouchers().ChangeVoucher(ctx, 1, drained, c, time.Date(2026, 2, 3, 4, 0, 0, 0, time.UTC))
	return err
}

// What is changed is stored and recorded, field by field; what stays the same is neither; and a change that is meant
// for another revision changes nothing.
func TestChangesAreStored(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 10)
		v := newVoucher(1, 10)
		begin, end := v.BeginAt.Add(time.Minute), v.EndAt.Add(time.Hour)
		fail.NowIf(t, change(t.Context(), d, 0, voucher.Change{Title: new("b"), BeginAt: &begin, EndAt: &end, Paused: new(true), AddStock: 5}))
		fail.Unless(t, change(t.Context(), d, 0, voucher.Change{Revision: 1, Title: new("c")}), voucher.ErrRevision)
		fail.NowIf(t, change(t.Context(), d, 0, voucher.Change{Title: new("b"), Paused: new(true)})) // nothing new
		fail.NowIf(t, change(t.Context(), d, 0, voucher.Change{Revision: 2, AddStock: -3}))
		fail.Unless(t, change(t.Context(), d, 0, voucher.Change{AddStock: -12}), voucher.ErrTooFew)
		fail.Unless(t, change(t.Context(), d, 0, voucher.Change{EndAt: &v.CreatedAt}), voucher.ErrInvalid)
		got, err := d.Vouchers().Voucher(t.Context(), 1)
		fail.NowIf(t, err)
		want := *v
		want.Title, want.BeginAt, want.EndAt, want.Paused = "b", begin, end, true
		want.Stock, want.InitialStock, want.Revision, want.Version = 12, 12, 3, 2
		if !reflect.DeepEqual(*got, want) {
			t.Errorf("%+v\nwant %+v", *got, want)
		}
		wantAudit(t, d, order.Audit{InitialStock: 12, Stock: 12})

		records, err := d.Vouchers().Changes(t.Context(), 1, 1<<62, 10)
		fail.NowIf(t, err)
		var fields []string
		for _, r := range records {
			if r.By != (voucher.Author{Name: "admin", Address: "::1", RequestID: "R"}) || r.At.Year() != 2026 {
				t.Errorf("%+v", r)
			}
			for _, f := range r.Fields {
				fields = append(fields, f.Field)
			}
		}
		if len(records) != 2 || records[0].Revision != 3 || !reflect.DeepEqual(fields, []string{"initial_stock", "title", "begin_at", "end_at", "paused", "initial_stock"}) {
			t.Errorf("%+v", records)
		}
		fail.Unless(t, fail.Of(d.Vouchers().ChangeVoucher(t.Context(), 2, 0, voucher.Change{}, time.Now())), voucher.ErrNotFound)
	})
}

// Whatever the stock strategy, an order that was decided by a revision that is over sells nothing.
func TestOrdersOfAnOldRevision(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 10)
		fail.NowIf(t, change(t.Context(), d, 0, voucher.Change{Paused: new(true)}))
		for id, stock := range map[int64]voucher.Stock{2: voucher.StockRows, 3: voucher.StockUnits, 4: voucher.StockGrouped} {
			v := newVoucher(id, 20)
			v.Policy.Stock = stock
			fail.NowIf(t, d.Vouchers().CreateVoucher(t.Context(), v))
			fail.NowIf(t, fail.Of(d.Vouchers().ChangeVoucher(t.Context(), id, 0, voucher.Change{Paused: new(true)}, time.Now())))
		}
		for name, decrement := range map[string]func(ctx context.Context, tx order.Tx) error{
			"conditional": func(ctx context.Context, tx order.Tx) error { return tx.Decrement(ctx, 1) },
			"unguarded":   func(ctx context.Context, tx order.Tx) error { return tx.SetStock(ctx, 1, 9) },
			"version":     func(ctx context.Context, tx order.Tx) error { return tx.DecrementVersion(ctx, 1, 0) },
			"fenced":      func(ctx context.Context, tx order.Tx) error { return tx.DecrementFenced(ctx, 1, 1) },
			"rows":        func(ctx context.Context, tx order.Tx) error { return tx.DecrementRow(ctx, 2, 5) },
			"units":       func(ctx context.Context, tx order.Tx) error { return tx.TakeUnit(ctx, 3, 5) },
		} {
			for revision, want := range map[int64]error{1: voucher.ErrChanged, 2: nil, 0: nil} {
				undo := errors.New("undo")
				err := d.Orders().Transact(t.Context(), func(ctx context.Context, tx order.Tx) error {
					tx.AtRevision(revision)
					if err := decrement(ctx, tx); err != nil {
						return err
					}
					if err := tx.Flush(ctx); err != nil {
						return err
					}
					return undo
				})
				if want == nil {
					want = undo
				}
				fail.Unless(t, err, want, "%s at revision %d", name, revision)
			}
		}
		for i, revision := range []int64{1, 2, 1, 2, 0} { // one after the other, and in groups below
			err := fail.Of(d.Orders().PlaceGrouped(t.Context(), newOrder(int64(i+1), 1, int64(i+1)), revision))
			if errors.Is(err, voucher.ErrChanged) != (revision == 1) {
				t.Errorf("grouped at revision %d: %v", revision, err)
			}
		}
		for i, err := range runAtOnce(40, func(i int) error {
			return fail.Of(d.Orders().PlaceGrouped(t.Context(), newOrder(int64(i+100), 4, int64(i+100)), int64(1+i%2)))
		}) {
			fail.Unless(t, err, []error{voucher.ErrChanged, nil}[i%2], "order %d of a group", i)
		}
	})
}

// Units are added and taken away, and the sale is paused and resumed, while buyers buy: the stock and the orders add up
// at every moment, nothing is sold after a pause was told, and all that is left sells.
func TestChangesRaceOrders(t *testing.T) {
	for _, stock := range []voucher.Stock{voucher.StockConditional, voucher.StockRows, voucher.StockUnits, voucher.StockGrouped} {
		t.Run(string(stock), func(t *testing.T) { changesRaceOrders(t, stock) })
	}
}

func changesRaceOrders(t *testing.T, stock voucher.Stock) {
	engines(t, func(t *testing.T, d *DB) {
		v := newVoucher(1, 20)
		v.Policy.Stock = stock
		fail.NowIf(t, d.Vouchers().CreateVoucher(t.Context(), v))
		take := map[voucher.Stock]func(ctx context.Context, tx order.Tx, user int64) error{
			voucher.StockConditional: func(ctx context.Context, tx order.Tx, _ int64) error { return tx.Decrement(ctx, 1) },
			voucher.StockRows: func(ctx context.Context, tx order.Tx, user int64) error {
				return tx.DecrementRow(ctx, 1, v.FirstPart(user))
			},
			voucher.StockUnits: func(ctx context.Context, tx order.Tx, user int64) error {
				return tx.TakeUnit(ctx, 1, v.FirstPart(user))
			},
		}[stock]
		ctx, stop := context.WithCancel(t.Context())
		var revision, sold, id atomic.Int64
		revision.Store(1)
		var buyers sync.WaitGroup
		for range 4 {
			buyers.Go(func() {
				for ctx.Err() == nil {
					at, n := revision.Load(), id.Add(1)
					if at%2 == 0 { // paused: its cache says so
						continue
					}
					if stock == voucher.StockGrouped {
						switch err := fail.Of(d.Orders().PlaceGrouped(t.Context(), newOrder(n, 1, n), at)); {
						case err == nil:
							sold.Add(1)
						case !errors.Is(err, voucher.ErrChanged) && !errors.Is(err, voucher.ErrSoldOut):
							t.Error(err)
						}
						continue
					}
					err := d.Orders().Transact(t.Context(), func(ctx context.Context, tx order.Tx) error {
						tx.AtRevision(at)
						return errors.Join(take(ctx, tx, n), tx.Insert(ctx, newOrder(n, 1, n), true))
					})
					if err == nil {
						sold.Add(1)
					} else if !errors.Is(err, voucher.ErrChanged) && !errors.Is(err, voucher.ErrSoldOut) {
						t.Error(err)
					}
				}
			})
		}
		for round := range int64(10) {
			fail.NowIf(t, change(t.Context(), d, 0, voucher.Change{Revision: 1 + 2*round, Paused: new(true)}))
			revision.Store(2 + 2*round)
			first, err := d.Orders().Audit(t.Context(), 1)
			fail.NowIf(t, err)
			then, err := d.Orders().Audit(t.Context(), 1)
			fail.NowIf(t, err)
			if first != then || !first.Balanced() {
				t.Errorf("paused: %+v, then %+v", first, then)
			}
			c := voucher.Change{Paused: new(false), AddStock: 7}
			if round%2 == 1 {
				c.AddStock = -min(3, first.Stock)
			}
			fail.NowIf(t, change(t.Context(), d, 0, c))
			revision.Store(3 + 2*round)
		}
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); { // all that is left sells
			if a, err := d.Orders().Audit(t.Context(), 1); err != nil || a.Stock == 0 {
				break
			}
		}
		stop()
		buyers.Wait()
		a, err := d.Orders().Audit(t.Context(), 1)
		fail.NowIf(t, err)
		if !a.Balanced() || a.Stock > 0 || a.Orders != sold.Load() {
			t.Errorf("%+v, %d sold", a, sold.Load())
		}
	})
}

// Under the admission flow units are taken away only while the epoch is closed under which none are pending; added
// units are given back to the first bucket of an open epoch, and Redis has to be told of them.
func TestStockOfAnAdmissionVoucherIsChanged(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		openVoucher(t, d, 1, 10)
		store := d.AdmissionStore()
		fail.Unless(t, change(t.Context(), d, 0, voucher.Change{AddStock: -1}), voucher.ErrNotDrained)
		fail.Unless(t, change(t.Context(), d, 2, voucher.Change{AddStock: -1}), voucher.ErrNotDrained) // open
		for _, total := range []int64{4, 8} {
			fail.NowIf(t, change(t.Context(), d, 0, voucher.Change{AddStock: 4}))
			st, err := store.EpochState(t.Context(), 1)
			fail.NowIf(t, err)
			if st.ReturnedToFirst != total || st.Returned != total || st.Arrived[0] != total || st.Stock != 10+total || st.Revision != 1+total/4 {
				t.Errorf("%+v", st)
			}
		}
		closed, err := store.Close(t.Context(), 1)
		fail.NowIf(t, err)
		fail.Unless(t, change(t.Context(), d, closed.Epoch-2, voucher.Change{AddStock: -1}), voucher.ErrNotDrained)
		fail.NowIf(t, change(t.Context(), d, closed.Epoch, voucher.Change{AddStock: -3}))
		fail.NowIf(t, change(t.Context(), d, 0, voucher.Change{AddStock: 1, Paused: new(true)})) // its opening has it
		st, err := store.Open(t.Context(), 1, closed.Epoch)
		fail.NowIf(t, err)
		if st.Stock != 16 || st.ReturnedToFirst != 0 || st.Returned != 0 || !st.Paused || len(st.Arrived) > 0 {
			t.Errorf("%+v", st)
		}
		wantAudit(t, d, order.Audit{InitialStock: 16, Stock: 16})
	})
}

// A voucher is deleted with all that belongs to it but its changes, unless it has orders or its gate may have some.
func TestVouchersAreDeleted(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		gone := func(id, drained int64, c voucher.Change) error {
			return d.Vouchers().DeleteVoucher(t.Context(), id, drained, c, time.Now())
		}
		createVoucher(t, d, 1, 10)
		createVoucher(t, d, 2, 10)
		fail.NowIf(t, placeOrder(t.Context(), d, newOrder(5, 2, 42), true))
		fail.Unless(t, gone(2, 0, voucher.Change{}), voucher.ErrHasOrders)
		fail.Unless(t, gone(1, 0, voucher.Change{Revision: 2}), voucher.ErrRevision)
		fail.NowIf(t, gone(1, 0, voucher.Change{Revision: 1}))
		fail.Unless(t, gone(1, 0, voucher.Change{}), voucher.ErrNotFound)
		fail.Unless(t, placeOrder(t.Context(), d, newOrder(6, 1, 43), true), voucher.ErrNotFound)

		openVoucher(t, d, 3, 10)
		fail.Unless(t, gone(3, 0, voucher.Change{}), voucher.ErrNotDrained)
		closed, err := d.AdmissionStore().Close(t.Context(), 3)
		fail.NowIf(t, err)
		fail.NowIf(t, gone(3, closed.Epoch, voucher.Change{}))
		fail.Unless(t, fail.Of(d.AdmissionStore().Open(t.Context(), 3, closed.Epoch)), order.ErrConflict)
		var vouchers []contract.AdmissionVoucher
		vouchers, err = d.AdmissionStore().AllAdmissionVouchers(t.Context())
		fail.NowIf(t, err)
		records, err := d.Vouchers().Changes(t.Context(), 3, 1<<62, 10)
		fail.NowIf(t, err)
		if len(vouchers) > 0 || len(records) != 1 || records[0].Fields[0].Field != "deleted" {
			t.Errorf("%+v, %+v", vouchers, records)
		}
	})
}
