package service

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/reconcile"
	"seckill/internal/voucher"
)

// gathered is the value of a gauge; labels has "name=value" of one label, or nothing.
func gathered(t *testing.T, g prometheus.Gatherer, name, label string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if labels := m.GetLabel(); label == "" && len(labels) == 0 || len(labels) == 1 && labels[0].GetName()+"="+labels[0].GetValue() == label {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no %s{%s}", name, label)
	return 0
}

// The embedded service reconciles itself too.
func TestReconcileWatchEmbedded(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	stores, err := openStores(t.Context(), Config{Embedded: true}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stores.close() })
	policy := voucher.DefaultPolicy()
	policy.Flow = voucher.FlowAdmission
	if err := stores.db.Vouchers().CreateVoucher(t.Context(), &voucher.Voucher{
		ID: 7, Title: "t", InitialStock: 5, Stock: 5, BeginAt: time.Now(), EndAt: time.Now().Add(time.Hour), Policy: policy,
	}); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	rec := NewReconciler(stores.redis, stores.db)
	rec.Pause = time.Millisecond
	w, err := reconcile.NewWatch(rec, registry, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	expect := func(balanced float64, want reconcile.State) {
		t.Helper()
		w.Check(t.Context())
		if got := gathered(t, registry, "seckill_reconcile_vouchers", "state=balanced"); got != balanced {
			t.Errorf("%v balanced, want %v", got, balanced)
		}
		if f := rec.Check(t.Context(), []order.AdmissionVoucher{{VoucherID: 7, Buckets: 1}})[0]; f.Err != nil || f.State() != want {
			t.Errorf("%s, %v; want %s", f.State(), f.Err, want)
		}
	}
	expect(1, reconcile.NeverOpened)
	closedStanding, err := stores.db.AdmissionStore().Close(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stores.db.AdmissionStore().Open(t.Context(), 7, closedStanding.Epoch); err != nil {
		t.Fatal(err)
	}
	expect(1, reconcile.Closed)
	meta := ledger.KeysOf(KeyPrefix, 7, 0).Meta
	for stock, balanced := range map[string]float64{"5": 1, "4": 0} {
		if err := stores.redis.HSet(t.Context(), meta, ledger.FieldEpoch, closedStanding.Epoch+1, ledger.FieldSeq, 0, ledger.FieldStock, stock).Err(); err != nil {
			t.Fatal(err)
		}
		expect(balanced, reconcile.AtRest)
	}
}
