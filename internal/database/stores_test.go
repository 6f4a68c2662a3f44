package database

import (
	"math"
	"reflect"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

func TestVoucherComesBackAsItWent(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		v := newVoucher(math.MaxInt64, 7)
		v.Stock, v.Version = 5, 2
		// Another zone, and more digits than are kept.
		east := time.FixedZone("east", 8*3600)
		v.BeginAt = time.Date(2026, 12, 31, 23, 59, 59, 999_999_999, east)
		v.EndAt = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
		v.CreatedAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // no fraction at all
		v.Policy = voucher.Policy{
			Flow: voucher.FlowLocked, Lock: "naive", Scope: voucher.ScopeVoucher, Placement: voucher.InsideTx,
			Stock: voucher.StockUnguarded, LockTTLMS: 1, LockWaitMS: 2, FaultSeed: 7,
			Faults: []lock.Fault{{Point: lock.CriticalSection, PauseMS: 400, Probability: 0.05}},
		}
		fail.NowIf(t, d.Vouchers().CreateVoucher(t.Context(), v))
		got, err := d.Vouchers().Voucher(t.Context(), v.ID)
		fail.NowIf(t, err)

		want := *v
		want.BeginAt = time.Date(2026, 12, 31, 15, 59, 59, 999_999_000, time.UTC)
		if !reflect.DeepEqual(*got, want) {
			t.Errorf("stored %+v\n got   %+v", want, *got)
		}
		fail.Unless(t, d.Vouchers().CreateVoucher(t.Context(), v), errDuplicate)
	})
}

func TestSalesAreCounted(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
		for i, sale := range []struct {
			flow  voucher.Flow
			lock  string
			stock int64
			begin time.Time
			end   time.Time
		}{
			{voucher.FlowLocked, "lua", 1, now.Add(-time.Hour), now.Add(time.Hour)},
			{voucher.FlowLocked, "lua", 1, now.Add(time.Hour), now.Add(2 * time.Hour)},    // not yet
			{voucher.FlowLocked, "fair", 1, now.Add(-time.Hour), now},                     // ended
			{voucher.FlowLocked, "mysql-row", 0, now.Add(-time.Hour), now.Add(time.Hour)}, // sold out
			{voucher.FlowAdmission, "reentrant", 1, now.Add(-time.Hour), now.Add(time.Hour)},
		} {
			v := newVoucher(int64(i+1), 1)
			v.Stock, v.BeginAt, v.EndAt = sale.stock, sale.begin, sale.end
			v.Policy.Flow, v.Policy.Lock = sale.flow, sale.lock
			fail.NowIf(t, d.Vouchers().CreateVoucher(t.Context(), v))
		}
		got, err := d.Vouchers().Sales(t.Context(), now)
		fail.NowIf(t, err)
		want := []voucher.Sale{{Flow: voucher.FlowAdmission, Lock: "reentrant", Vouchers: 1}, {Flow: voucher.FlowLocked, Lock: "lua", Vouchers: 2}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// Vouchers are listed in the order of their ids. One that cannot be read does not keep others from being read.
func TestVouchersAreListed(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		fail.Unless(t, fail.Of(d.Vouchers().Voucher(t.Context(), 1)), voucher.ErrNotFound)
		for _, id := range []int64{30, 10, 20} {
			createVoucher(t, d, id, id)
		}
		for _, page := range []struct {
			after int64
			limit int
			want  []int64
		}{{0, 10, []int64{10, 20, 30}}, {10, 1, []int64{20}}, {30, 10, nil}} {
			got, err := d.Vouchers().Vouchers(t.Context(), voucher.List{After: voucher.Position{ID: page.after}}, time.Now(), page.limit)
			fail.NowIf(t, err)
			var ids []int64
			for _, v := range got {
				ids = append(ids, v.ID)
			}
			if !reflect.DeepEqual(ids, page.want) {
				t.Errorf("after %d: %v, want %v", page.after, ids, page.want)
			}
		}
		fail.NowIf(t, d.rows.Exec("UPDATE vouchers SET policy = '[]' WHERE id = 20").Error)
		got, err := d.Vouchers().VouchersByID(t.Context(), []int64{10, 77, 20, 30})
		fail.NowIf(t, err)
		if len(got) != 3 || got[10].Voucher.Stock != 10 || got[30].Voucher.Stock != 30 || got[10].Err != nil || got[20].Err == nil || got[20].Voucher != nil {
			t.Errorf("%+v", got)
		}
	})
}

// Orders of a user are listed from the newest on, and an audit counts those of one voucher.
func TestOrdersAreListedAndCounted(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		fail.Unless(t, fail.Of(d.Orders().Order(t.Context(), 1)), order.ErrNotFound)
		fail.Unless(t, fail.Of(d.Orders().Audit(t.Context(), 1)), voucher.ErrNotFound)
		createVoucher(t, d, 1, 10)
		createVoucher(t, d, 2, 10)
		wantAudit(t, d, order.Audit{InitialStock: 10, Stock: 10})
		pending, rejected := newOrder(3, 1, 3), newOrder(4, 1, 4)
		pending.Status, rejected.Status = order.Pending, order.Rejected
		for _, o := range []order.Order{newOrder(1, 1, 42), newOrder(2, 1, 42), pending, rejected, newOrder(5, 2, 42), newOrder(6, 2, 42)} {
			fail.NowIf(t, placeOrder(t.Context(), d, o, false))
		}
		wantAudit(t, d, order.Audit{InitialStock: 10, Stock: 6, Orders: 2, DistinctUsers: 1, Pending: 1})

		got, err := d.Orders().OrdersOf(t.Context(), 42, 6, 2)
		fail.NowIf(t, err)
		if want := []order.Order{newOrder(5, 2, 42), newOrder(2, 1, 42)}; !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		got, err = d.Orders().OrdersOfVoucher(t.Context(), 1, 7, 2)
		fail.NowIf(t, err)
		if want := []order.Order{rejected, pending}; !reflect.DeepEqual(got, want) {
			t.Errorf("of the voucher: got %+v, want %+v", got, want)
		}
		one, err := d.Orders().Order(t.Context(), 3)
		if fail.NowIf(t, err); one != pending {
			t.Errorf("got %+v", one)
		}
	})
}
