package eventlog_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/database"
	"seckill/internal/eventlog"
	"seckill/internal/lock"
	"seckill/internal/lock/local"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// ids returns 1, 2, 3 …
type ids struct{ n atomic.Int64 }

func (i *ids) NextID(context.Context) (int64, error) { return i.n.Add(1), nil }

// lockers returns the same locker for every name.
type lockers struct{ locker lock.Locker }

func (l lockers) Locker(string) (lock.Locker, error) { return l.locker, nil }

// newOrders returns a recorded order service over a real database with one voucher.
func newOrders(t *testing.T, stock int64, policy func(*voucher.Policy)) (eventlog.OrderService, *output) {
	t.Helper()
	rec, w := newRecorder(t)
	db, err := database.Open(t.Context(), database.Config{SQLite: filepath.Join(t.TempDir(), "shop.db")})
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = db.Close() })
	fail.NowIf(t, fail.Of(db.Migrate(t.Context())))
	now := time.Now().Truncate(time.Microsecond)
	v := &voucher.Voucher{
		ID: 7, Title: "t", Stock: stock, InitialStock: stock, BeginAt: now, EndAt: now.Add(time.Hour), CreatedAt: now,
		Policy: voucher.DefaultPolicy(),
	}
	policy(&v.Policy)
	fail.NowIf(t, db.Vouchers().CreateVoucher(t.Context(), v))
	service, err := order.NewService(order.Config{
		Store: eventlog.Store(db.Orders(), rec), Vouchers: voucher.NewCache(db.Vouchers(), 0, time.Now),
		IDs: &ids{}, Lockers: lockers{eventlog.Locker("local", local.New(), rec)}, Now: time.Now,
		Log: slog.New(slog.DiscardHandler), Lab: true,
	})
	fail.NowIf(t, err)
	return eventlog.Orders(service, rec), w
}

// summary formats the fields of an event that the tests compare.
func summary(e eventlog.Event) string {
	switch e.Kind {
	case eventlog.Read:
		return fmt.Sprintf("read %d@%d", e.Stock, e.Version)
	case eventlog.Write:
		return fmt.Sprintf("write %s %d@%d #%d", e.Mode, e.Stock, e.Version, e.Token)
	case eventlog.Checked:
		return fmt.Sprintf("checked %v", e.Found)
	}
	return string(e.Kind)
}

func TestOrderIsRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		policy func(*voucher.Policy)
		want   []string // within the transaction
	}{
		"conditional": {func(*voucher.Policy) {}, []string{"write conditional 0@0 #0"}},
		"not unique":  {func(p *voucher.Policy) { p.Unique = false }, []string{"checked false", "write conditional 0@0 #0"}},
		"unguarded":   {func(p *voucher.Policy) { p.Stock = voucher.StockUnguarded }, []string{"read 3@0", "write unguarded 2@0 #0"}},
		"version":     {func(p *voucher.Policy) { p.Stock = voucher.StockVersion }, []string{"read 3@0", "write version 0@0 #0"}},
		"rows":        {func(p *voucher.Policy) { p.Stock = voucher.StockRows }, []string{"write rows 0@0 #0"}},
		"grouped":     {func(p *voucher.Policy) { p.Stock = voucher.StockGrouped }, []string{"write grouped 0@0 #0"}},
		"units":       {func(p *voucher.Policy) { p.Stock = voucher.StockUnits }, []string{"write units 0@0 #0"}},
		"fenced":      {func(p *voucher.Policy) { p.Stock = voucher.StockFenced }, []string{"write fenced 0@0 #0"}},
	} {
		t.Run(name, func(t *testing.T) {
			service, w := newOrders(t, 3, c.policy)
			placed, err := service.Place(t.Context(), order.Request{VoucherID: 7, UserID: 17})
			fail.NowIf(t, err)
			events := w.events(t)
			var got []string
			for i, e := range events {
				got = append(got, summary(e))
				if e.Who != "buyer 17" || e.Attempt != 1 || e.Voucher != 7 || e.User != 17 || e.Error != "" {
					t.Errorf("%+v", e)
				}
				if i > 0 && e.At < events[i-1].At || e.Began > e.At {
					t.Errorf("%s is out of order: %+v", e.Kind, e)
				}
			}
			want := slices.Concat([]string{"acquiring", "acquired", "begun"}, c.want, []string{"insert", "committed", "releasing", "released"})
			if !slices.Equal(got, want) {
				t.Fatalf("recorded %q\nwant     %q", got, want)
			}
			for _, e := range events {
				if e.Kind == eventlog.Committed && (e.Order != placed.ID || e.Tx != 1 || e.Began == 0) {
					t.Errorf("committed: %+v", e)
				}
			}
		})
	}
}

// Two orders of one buyer have different attempts, and a rollback has its reason.
func TestRefusedOrderIsRolledBack(t *testing.T) {
	service, w := newOrders(t, 3, func(*voucher.Policy) {})
	for _, want := range []error{nil, order.ErrAlreadyOrdered} {
		fail.NowUnless(t, fail.Of(service.Place(t.Context(), order.Request{VoucherID: 7, UserID: 17})), want, "Place")
	}
	var rolledBack []eventlog.Event
	for _, e := range w.events(t) {
		if e.Kind == eventlog.RolledBack {
			rolledBack = append(rolledBack, e)
		}
	}
	if len(rolledBack) != 1 || rolledBack[0].Attempt != 2 || rolledBack[0].Tx != 2 || rolledBack[0].Error == "" {
		t.Errorf("rolled back: %+v", rolledBack)
	}
}

// repeating is a store that repeats each transaction, as after a deadlock.
type repeating struct {
	order.Store
	times int
}

func (r *repeating) Transact(ctx context.Context, fn func(context.Context, order.Tx) error) error {
	for range r.times {
		_ = fn(ctx, idleTx{})
	}
	return fn(ctx, idleTx{})
}

type idleTx struct{ order.Tx }

func (idleTx) Insert(context.Context, order.Order, bool) error { return nil }

func TestRepeatedTransactionIsRolledBackFirst(t *testing.T) {
	rec, w := newRecorder(t)
	store := eventlog.Store(&repeating{times: 2}, rec)
	err := store.Transact(t.Context(), func(ctx context.Context, tx order.Tx) error {
		return tx.Insert(ctx, order.Order{ID: 5, VoucherID: 7, UserID: 17}, true)
	})
	fail.NowIf(t, err)
	events := w.events(t)
	wantKinds(t, events, eventlog.Begun, eventlog.Insert, eventlog.RolledBack, eventlog.Begun, eventlog.Insert, eventlog.RolledBack, eventlog.Begun, eventlog.Insert, eventlog.Committed)
	for i, e := range events {
		if e.Tx != int64(i/3+1) || e.Kind == eventlog.RolledBack && (e.Error != "repeated" || e.Order != 5) {
			t.Errorf("event %d: %+v", i, e)
		}
	}
}

func TestPanicIsARollback(t *testing.T) {
	rec, w := newRecorder(t)
	store := eventlog.Store(&repeating{}, rec)
	func() {
		defer func() { _ = recover() }()
		_ = store.Transact(t.Context(), func(context.Context, order.Tx) error { panic("in the work") })
	}()
	events := w.events(t)
	wantKinds(t, events, eventlog.Begun, eventlog.RolledBack)
	if events[1].Error != "panic" || events[1].Began != 0 {
		t.Errorf("%+v", events[1])
	}
}
