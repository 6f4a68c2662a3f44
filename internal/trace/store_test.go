package trace_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/database"
	"seckill/internal/lock"
	"seckill/internal/lock/local"
	"seckill/internal/order"
	"seckill/internal/trace"
	"seckill/internal/voucher"
)

// ids mints 1, 2, 3 …
type ids struct{ n atomic.Int64 }

func (i *ids) NextID(context.Context) (int64, error) { return i.n.Add(1), nil }

// shelf hands one locker out under every name.
type shelf struct{ locker lock.Locker }

func (s shelf) Locker(string) (lock.Locker, error) { return s.locker, nil }

// shop sells vouchers out of a real database, recorded.
func shop(t *testing.T, stock int64, policy func(*voucher.Policy)) (trace.OrderService, *tape) {
	t.Helper()
	rec, w := recording(t)
	db, err := database.Open(t.Context(), database.Config{SQLite: filepath.Join(t.TempDir(), "shop.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Microsecond)
	v := &voucher.Voucher{
		ID: 7, Title: "t", Stock: stock, InitialStock: stock, BeginAt: now, EndAt: now.Add(time.Hour), CreatedAt: now,
		Policy: voucher.DefaultPolicy(),
	}
	policy(&v.Policy)
	if err := db.Vouchers().CreateVoucher(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	service, err := order.NewService(order.Config{
		Store: trace.Store(db.Orders(), rec), Vouchers: voucher.NewCache(db.Vouchers(), 0, time.Now),
		IDs: &ids{}, Lockers: shelf{trace.Locker("local", local.New(), rec)}, Now: time.Now,
		Log: slog.New(slog.DiscardHandler), Lab: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return trace.Orders(service, rec), w
}

// told is an event as far as a test has to look at it.
func told(e trace.Event) string {
	switch e.Kind {
	case trace.Read:
		return fmt.Sprintf("read %d@%d", e.Stock, e.Version)
	case trace.Write:
		return fmt.Sprintf("write %s %d@%d #%d", e.Mode, e.Stock, e.Version, e.Token)
	case trace.Checked:
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
		"fenced":      {func(p *voucher.Policy) { p.Stock = voucher.StockFenced }, []string{"write fenced 0@0 #0"}},
	} {
		t.Run(name, func(t *testing.T) {
			service, w := shop(t, 3, c.policy)
			placed, err := service.Place(t.Context(), order.Request{VoucherID: 7, UserID: 17})
			if err != nil {
				t.Fatal(err)
			}
			events := w.events(t)
			var got []string
			for i, e := range events {
				got = append(got, told(e))
				if e.Who != "buyer 17" || e.Attempt != 1 || e.Voucher != 7 || e.User != 17 || e.Error != "" {
					t.Errorf("%+v", e)
				}
				if i > 0 && e.At < events[i-1].At || e.Asked > e.At {
					t.Errorf("%s is out of time: %+v", e.Kind, e)
				}
			}
			want := slices.Concat([]string{"asked", "acquired", "begun"}, c.want, []string{"insert", "committed", "releasing", "released"})
			if !slices.Equal(got, want) {
				t.Fatalf("recorded %q\nwant     %q", got, want)
			}
			for _, e := range events {
				if e.Kind == trace.Committed && (e.Order != placed.ID || e.Tx != 1 || e.Asked == 0) {
					t.Errorf("committed: %+v", e)
				}
			}
		})
	}
}

// Two orders of one buyer are told apart, and what undid a transaction is said.
func TestRefusedOrderIsUndone(t *testing.T) {
	service, w := shop(t, 3, func(*voucher.Policy) {})
	for _, want := range []error{nil, order.ErrAlreadyOrdered} {
		if _, err := service.Place(t.Context(), order.Request{VoucherID: 7, UserID: 17}); !errors.Is(err, want) {
			t.Fatalf("Place = %v, want %v", err, want)
		}
	}
	var undone []trace.Event
	for _, e := range w.events(t) {
		if e.Kind == trace.Undone {
			undone = append(undone, e)
		}
	}
	if len(undone) != 1 || undone[0].Attempt != 2 || undone[0].Tx != 2 || undone[0].Error == "" {
		t.Errorf("undone %+v", undone)
	}
}

// repeating is a store whose transactions are repeated as after a deadlock.
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

func TestRepeatedTransactionIsUndoneBefore(t *testing.T) {
	rec, w := recording(t)
	store := trace.Store(&repeating{times: 2}, rec)
	err := store.Transact(t.Context(), func(ctx context.Context, tx order.Tx) error {
		return tx.Insert(ctx, order.Order{ID: 5, VoucherID: 7, UserID: 17}, true)
	})
	if err != nil {
		t.Fatal(err)
	}
	events := w.events(t)
	wantKinds(t, events, trace.Begun, trace.Insert, trace.Undone, trace.Begun, trace.Insert, trace.Undone, trace.Begun, trace.Insert, trace.Committed)
	for i, e := range events {
		if e.Tx != int64(i/3+1) || e.Kind == trace.Undone && (e.Error != "repeated" || e.Order != 5) {
			t.Errorf("event %d: %+v", i, e)
		}
	}
}

func TestPanicUndoes(t *testing.T) {
	rec, w := recording(t)
	store := trace.Store(&repeating{}, rec)
	func() {
		defer func() { _ = recover() }()
		_ = store.Transact(t.Context(), func(context.Context, order.Tx) error { panic("in the work") })
	}()
	events := w.events(t)
	wantKinds(t, events, trace.Begun, trace.Undone)
	if events[1].Error != "panic" || events[1].Asked != 0 {
		t.Errorf("%+v", events[1])
	}
}
