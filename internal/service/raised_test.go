package service

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/admission/contract"
	"seckill/internal/database"
	"seckill/internal/order"
	"seckill/internal/reconcile"
	"seckill/internal/simulate"
	"seckill/internal/telemetry"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// Stock is raised in the database by hand, while the voucher is sold by admission. It is not on sale, which is reported
// with what to do, and that has it sold, to the last unit.
func TestStockRaisedByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, ctx := slog.New(slog.DiscardHandler), t.Context()
		db, err := database.Open(ctx, database.Config{SQLite: filepath.Join(t.TempDir(), "db")})
		fail.NowIf(t, err)
		defer db.Close()
		_, err = db.Migrate(ctx)
		fail.NowIf(t, err)
		server := simulate.NewRedis(t)
		s := &stores{db: db, redis: server.Client(t), orders: server.Client(t)}
		tracing, err := telemetry.Start(ctx, "", log)
		fail.NowIf(t, err)
		registry := prometheus.NewRegistry()
		flow, err := openAdmission(ctx, Config{Admission: admissionConfig{MaxPending: 100, MaxInFlight: 100, OrdersPerEntry: 1}}, s, registry, tracing, log)
		fail.NowIf(t, err)
		defer func() { fail.If(t, flow.close()) }()

		policy := voucher.DefaultPolicy()
		policy.Flow = voucher.FlowAdmission
		v := &voucher.Voucher{ID: 7, Title: "t", InitialStock: 3, Stock: 3, BeginAt: time.Now(), EndAt: time.Now().Add(time.Hour), Policy: policy, CreatedAt: time.Now()}
		fail.NowIf(t, db.Vouchers().CreateVoucher(ctx, v))
		flow.prepare(ctx, v)
		buy := func(user int64, want error) {
			t.Helper()
			err := flow.gate.Admit(ctx, v, order.Order{ID: 100 + user, VoucherID: 7, UserID: user, Status: order.Pending, CreatedAt: time.Now()})
			fail.Unless(t, err, want)
		}
		byHand := func(statement string) {
			t.Helper()
			_, err := db.Pools()["writers"].ExecContext(ctx, strings.ReplaceAll(statement, "ID", "7"))
			fail.NowIf(t, err)
		}
		reported := func(unsellable int64) {
			t.Helper()
			found, err := NewReconciler(s.redis, db, KeyPrefix).Report(ctx, []contract.AdmissionVoucher{{VoucherID: 7, Buckets: 1}}, false)
			fail.NowIf(t, err)
			var table strings.Builder
			fail.NowIf(t, found.PrintTable(&table))
			if e := found.Vouchers[0]; e.Unsellable != unsellable || e.Balanced != (unsellable == 0) || strings.Contains(table.String(), reconcile.TakeOver) != (unsellable > 0) {
				t.Errorf("%+v, want %d that cannot be sold\n%s", e, unsellable, table.String())
			}
		}
		for user := range int64(3) {
			buy(user+1, nil)
		}
		buy(4, voucher.ErrSoldOut)
		simulate.Sleep(10 * time.Second)
		reported(0)
		byHand("UPDATE vouchers SET stock = stock + 2, initial_stock = initial_stock + 2 WHERE id = ID")
		simulate.Sleep(time.Minute)
		buy(4, voucher.ErrSoldOut)
		reported(2)
		fail.Unequal(t, metric(t, registry, "seckill_reconcile_unsellable_stock"), 2, "the metric")
		byHand(reconcile.TakeOver)
		simulate.Sleep(10 * time.Second)
		buy(4, nil)
		buy(5, nil)
		buy(6, voucher.ErrSoldOut)
		simulate.Sleep(time.Minute)
		reported(0)
		fail.Unequal(t, metric(t, registry, "seckill_reconcile_unsellable_stock"), 0, "the metric")
	})
}

// metric returns the value of a gauge without labels.
func metric(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	fail.NowIf(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}
