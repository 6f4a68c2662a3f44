package sale

import (
	"context"
	"database/sql"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/database"
	"seckill/internal/order"
	"seckill/internal/reconcile"
	"seckill/internal/service"
	"seckill/internal/testkit"
	"seckill/test/harness"
)

// stores are a test's own connections to the stores of a service.
type stores struct {
	redis redis.UniversalClient
	db    *database.DB
}

// storesOf connects this process to the servers too.
func storesOf(t *testing.T, s harness.Stores) *stores {
	t.Helper()
	db, err := database.Open(t.Context(), database.Config{MySQL: s.DB.DSN, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: s.Redis})
	t.Cleanup(func() { _ = client.Close() })
	return &stores{client, db}
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	const users, stock = 1500, 1000
	s := harness.NewStores(t)
	p := harness.Start(t, s)
	sale := harness.OpenSale(t, stock, harness.AdmissionPolicy, p)

	// In the middle of the sale nothing is wrong either.
	selling, end := context.WithCancel(t.Context())
	var buyers sync.WaitGroup
	buyers.Go(func() {
		defer end()
		codes, _ := sale.OrderAll(users, 1, func(int) { time.Sleep(40 * time.Millisecond) })
		t.Log(codes)
	})
	stores := storesOf(t, s)
	rec := service.NewReconciler(stores.redis, stores.db)
	rec.Pause = 10 * time.Millisecond
	id, err := strconv.ParseInt(sale.Voucher, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[reconcile.State]int{}
	for selling.Err() == nil {
		f := rec.Check(t.Context(), []order.AdmissionVoucher{{VoucherID: id, Buckets: 1}})[0]
		if f.Err != nil || !f.Balanced() {
			t.Errorf("during the sale: %+v", f)
		}
		seen[f.State()]++
	}
	buyers.Wait()
	if seen[reconcile.Moving] == 0 {
		t.Errorf("nothing moved: %v", seen)
	}
	t.Log(seen)

	sale.AtRest(0)
	p.Kill()
	<-p.Done()
	exit, output, r := harness.RunReconcile(t, s, "--json", "--voucher", sale.Voucher)
	v := r.Vouchers[0]
	if exit != 0 || !r.Balanced || v.State != reconcile.AtRest || v.InitialStock != stock || v.Confirmed != stock || v.Redis != v.Database || v.Redis.Seq != stock {
		t.Errorf("at rest: %d %s", exit, output)
	}
	exit, output, _ = harness.RunReconcile(t, s)
	if exit != 0 || !strings.Contains(output, "1 of 1 vouchers balance") {
		t.Errorf("as a table: %d %s", exit, output)
	}
	t.Log("\n" + output)

	for _, wrong := range [][]string{{"--voucher", "1"}, {"--voucher", "x"}, {"surplus"}} {
		if exit, output, _ := harness.RunReconcile(t, s, wrong...); exit != 2 {
			t.Errorf("%v: %d %s", wrong, exit, output)
		}
	}
	brokenStock(t, s, sale)
}

func TestReconcileOnARedisCluster(t *testing.T) {
	t.Parallel()
	s := harness.Stores{DB: testkit.MariaDB(t), Redis: testkit.RedisCluster(t)}
	p := harness.Start(t, s)
	for range 3 { // in as many slots
		sale := harness.OpenSale(t, 5, harness.AdmissionPolicy, p)
		sale.OrderAll(3, 1, nil)
		sale.AtRest(0)
	}
	exit, output, r := harness.RunReconcile(t, s, "--json")
	if exit != 0 || len(r.Vouchers) != 3 {
		t.Fatalf("%d %s", exit, output)
	}
	for _, v := range r.Vouchers {
		if v.State != reconcile.AtRest || *v.RedisStock != 2 || v.Confirmed != 3 {
			t.Errorf("%+v", v)
		}
	}
}

// brokenStock breaks what a voucher has, one thing after the other.
func brokenStock(t *testing.T, s harness.Stores, sale *harness.Sale) {
	client := redis.NewClient(&redis.Options{Addr: s.Redis[0]})
	t.Cleanup(func() { _ = client.Close() })
	db, err := sql.Open("mysql", s.DB.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	id, err := strconv.ParseInt(sale.Voucher, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	keys := ledger.KeysOf(service.KeyPrefix, id, 0)
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, wantExit int, right func(v reconcile.Equation) bool) {
		t.Helper()
		exit, output, r := harness.RunReconcile(t, s, "--json")
		if exit != wantExit || len(r.Vouchers) != 1 || r.Balanced != (wantExit == 0) || !right(r.Vouchers[0]) {
			t.Errorf("%s: %d %s", what, exit, output)
		}
	}

	// A process dies between writing an order and acknowledging it. This is the state that it leaves.
	var orderID, userID string
	do(db.QueryRowContext(t.Context(), "SELECT id, user_id FROM orders WHERE voucher_id = ? LIMIT 1", id).Scan(&orderID, &userID))
	entry, err := client.XAdd(t.Context(), &redis.XAddArgs{Stream: keys.Orders, Values: []string{"o", orderID, "u", userID}}).Result()
	do(err)
	expect("not acknowledged", 0, func(v reconcile.Equation) bool { return v.Pending == 1 && v.Unacknowledged == 1 && v.Drift == 0 })
	do(client.XDel(t.Context(), keys.Orders, entry).Err())

	do(client.HIncrBy(t.Context(), keys.Meta, ledger.FieldStock, 3).Err())
	expect("three too many in Redis", 1, func(v reconcile.Equation) bool { return v.Drift == -3 && v.DatabaseDrift == 0 })
	do(client.HIncrBy(t.Context(), keys.Meta, ledger.FieldStock, -3).Err())

	do(client.HIncrBy(t.Context(), keys.Meta, ledger.FieldSeq, -1).Err())
	expect("Redis is behind", 1, func(v reconcile.Equation) bool { return v.Redis.Seq == v.Database.Seq-1 })
	do(client.HIncrBy(t.Context(), keys.Meta, ledger.FieldSeq, 1).Err())

	_, err = db.ExecContext(t.Context(), "DELETE FROM orders WHERE id = ?", orderID)
	do(err)
	expect("an order is gone from the database", 1, func(v reconcile.Equation) bool { return v.Drift == 0 && v.DatabaseDrift == 1 })
	_, err = db.ExecContext(t.Context(), "UPDATE vouchers SET stock = stock + 1 WHERE id = ?", id)
	do(err)
	expect("and its stock was given back there alone", 1, func(v reconcile.Equation) bool { return v.Drift == 1 && v.DatabaseDrift == 0 })

	do(client.Del(t.Context(), keys.Meta).Err())
	expect("Redis was emptied", 0, func(v reconcile.Equation) bool { return v.State == reconcile.Closed && v.RedisStock == nil })
}

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

func TestReconcileWatch(t *testing.T) {
	t.Parallel()
	s := harness.NewStores(t)
	sale := harness.OpenSale(t, 20, harness.AdmissionPolicy, harness.Start(t, s))
	sale.OrderAll(10, 1, nil)
	sale.AtRest(0)

	var logs strings.Builder
	log := slog.New(slog.NewTextHandler(&logs, nil))
	stores := storesOf(t, s)
	registry := prometheus.NewRegistry()
	rec := service.NewReconciler(stores.redis, stores.db)
	rec.Pause = 10 * time.Millisecond
	w, err := reconcile.NewWatch(rec, registry, log)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, balanced, unbalanced, drift float64, logged string) {
		t.Helper()
		for range 2 { // the second time there is no news
			w.Check(t.Context())
			if b, u, d := gathered(t, registry, "seckill_reconcile_vouchers", "state=balanced"), gathered(t, registry, "seckill_reconcile_vouchers", "state=unbalanced"),
				gathered(t, registry, "seckill_reconcile_drift_orders", ""); b != balanced || u != unbalanced || d != drift {
				t.Errorf("%s: %v balanced, %v not, drift %v", what, b, u, d)
			}
			if got := logs.String(); strings.Count(got, "\n") > 1 || !strings.Contains(got, logged) || logged == "" && got != "" {
				t.Errorf("%s: logged %q", what, got)
			}
			logs.Reset()
			logged = ""
		}
	}
	id, _ := strconv.ParseInt(sale.Voucher, 10, 64)
	meta := ledger.KeysOf(service.KeyPrefix, id, 0).Meta
	expect("right", 1, 0, 0, "")
	for _, by := range []int64{2, 3} {
		if err := stores.redis.HIncrBy(t.Context(), meta, ledger.FieldStock, by).Err(); err != nil {
			t.Fatal(err)
		}
		expect("too much in Redis", 0, 1, map[int64]float64{2: 2, 3: 5}[by], "a voucher does not balance")
	}
	if err := stores.redis.HIncrBy(t.Context(), meta, ledger.FieldStock, -5).Err(); err != nil {
		t.Fatal(err)
	}
	expect("right again", 1, 0, 0, "a voucher balances again")
	if time.Since(time.Unix(int64(gathered(t, registry, "seckill_reconcile_last_timestamp_seconds", "")), 0)) > time.Minute {
		t.Error("not just now")
	}
}
