package admission

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/database"
	"seckill/internal/fulfil"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// A whole sale on real servers, with the real database and consumers. Redis is emptied twice during the
// sale. At rest every invariant holds.
func TestSaleOnRealServers(t *testing.T) {
	t.Parallel()
	for _, buckets := range []int{1, 4} {
		t.Run(strconv.Itoa(buckets), func(t *testing.T) { saleOnRealServers(t, buckets) })
	}
}

func saleOnRealServers(t *testing.T, buckets int) {
	const stock, buyers = 3000, 5000
	ctx, log := t.Context(), slog.New(slog.DiscardHandler)
	server := testkit.NewRedis(t)
	client := dial(t, at(server.Addr()))
	db, err := database.Open(ctx, database.Config{MySQL: testkit.MariaDB(t).DSN, Logger: log})
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	must(t, errOf(db.Migrate(ctx)))
	v := &voucher.Voucher{
		ID: 77, Title: "100 off", Stock: stock, InitialStock: stock, Policy: voucher.DefaultPolicy(),
		BeginAt: time.Now().Add(-time.Minute).UTC(), EndAt: time.Now().Add(time.Hour).UTC(), CreatedAt: time.Now().UTC(),
	}
	v.Policy.Flow, v.Policy.Buckets = voucher.FlowAdmission, buckets
	must(t, db.Vouchers().CreateVoucher(ctx, v))
	locker, err := reentrant.New(client, reentrant.Config{})
	must(t, err)
	t.Cleanup(func() { _ = locker.Close() })

	var gates [2]*Gate
	var working sync.WaitGroup
	stopping, stop := context.WithCancel(ctx)
	for i := range gates {
		f, err := fulfil.New(fulfil.Config{Client: client, Store: db.AdmissionStore(), Orders: db.Orders(), Log: log})
		must(t, err)
		if gates[i], err = New(Config{Client: client, Store: db.AdmissionStore(), Workers: f, Locker: locker, Log: log}); err != nil {
			t.Fatal(err)
		}
		working.Go(func() { f.Run(stopping) })
	}

	var told atomic.Int64
	buy := func(user int64) {
		o := order.Order{ID: 1_000_000 + user, UserID: user, VoucherID: v.ID}
		gate := gates[user%2]
		err := gate.Admit(ctx, v, o)
		for errors.Is(err, order.ErrUnavailable) {
			time.Sleep(time.Millisecond)
			err = gate.Admit(ctx, v, o)
		}
		switch {
		case err == nil:
			if n := told.Add(1); n == stock/3 || n == stock*2/3 {
				if err := client.FlushAll(ctx).Err(); err != nil {
					t.Error(err)
				}
			}
		case !errors.Is(err, voucher.ErrSoldOut):
			t.Errorf("user %d: %v", user, err)
		}
	}
	// Every user buys a second time: some lost their order, because this Redis keeps nothing on disk, and
	// the others get the same answer again.
	for range 2 {
		var rush sync.WaitGroup
		for w := range int64(50) {
			rush.Go(func() {
				for n := range int64(buyers / 50) {
					buy(w*buyers/50 + n + 1)
				}
			})
		}
		rush.Wait()
	}
	var gate order.GateAudit
	testkit.Until(t, "no order is pending", func() bool {
		gate, err = gates[0].Audit(ctx, v.ID)
		return err == nil && gate.Pending == 0
	})
	stop()
	working.Wait()
	audit, err := db.Orders().Audit(ctx, v.ID)
	must(t, err)
	audit.Gate = &gate
	t.Logf("accepted %d times, epoch %d, %+v", told.Load(), gate.Epoch, audit)
	users := int64(0)
	for bucket := range buckets {
		users += client.HLen(ctx, ledger.KeysOf("", v.ID, bucket).Users).Val()
	}
	if !audit.Balanced() || audit.Orders != stock || gate.Stock != 0 || gate.Epoch <= 4 || users != stock {
		t.Errorf("%+v, gate %+v, %d users in Redis; want %d orders, nothing left, two rebuilds", audit, gate, users, stock)
	}
	for _, g := range gates {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestMemoryPerOrder(t *testing.T) {
	server := testkit.NewRedis(t)
	const orders = 20_000
	s := newFixture(t, at(server.Addr()), orders)
	g := s.gate(func(c *Config) { c.MaxPending = orders })
	used := func() int64 {
		info := s.client.InfoMap(t.Context(), "memory")
		n, err := strconv.ParseInt(info.Item("Memory", "used_memory"), 10, 64)
		must(t, err)
		return n
	}
	must(t, g.Open(t.Context(), &s.store.voucher))
	before := used()
	var wg sync.WaitGroup
	for w := range int64(100) {
		wg.Go(func() {
			for n := range int64(orders / 100) {
				// Ids as they are in life: 19 digits for an order.
				if err := s.buy(g, 1_000_000_000+w*orders+n, 2_587_575_859_586_103_540+w*orders+n); err != nil {
					t.Errorf("buy: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	waiting := float64(used()-before) / orders
	s.takeAll()
	after := float64(used()-before) / orders
	t.Logf("%.0f bytes per order before, %.0f after it is persisted", waiting, after)
	if after >= 200 {
		t.Errorf("%.0f bytes per order after it is persisted, want less than 200", after)
	}
}
