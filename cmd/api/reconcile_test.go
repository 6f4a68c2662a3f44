package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/admkey"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

func TestLooks(t *testing.T) {
	open := order.Standing{Epoch: 2, Seq: []int64{40}, Stock: 60}
	in := func(seq, stock, pending int64) standingInRedis {
		return standingInRedis{{epoch: 2, seq: seq, stock: stock, pending: pending}}
	}
	halves := order.Standing{Epoch: 2, Seq: []int64{20, 20}, Stock: 60}
	part := func(seq, stock, lent int64) bucketInRedis {
		return bucketInRedis{epoch: 2, seq: seq, stock: stock, lent: lent}
	}
	drawn := standingInRedis{part(21, 20, 10), part(21, 40, -10)}
	missing := bucketInRedis{epoch: -1, seq: -1, stock: -1}
	right := &order.Audit{InitialStock: 100, Stock: 60, Orders: 40, DistinctUsers: 40}
	for _, tc := range []struct {
		name           string
		before, after  standingInRedis
		database       order.Standing
		audit          *order.Audit
		unacknowledged int64
		state          state
		drift          int64
		balanced       bool
	}{
		{name: "at rest", before: in(40, 60, 0), after: in(40, 60, 0), database: open, audit: right, state: atRest, balanced: true},
		{name: "on their way", before: in(50, 50, 10), after: in(50, 50, 10), database: open, state: atRest, balanced: true},
		{name: "accepted meanwhile", before: in(50, 50, 10), after: in(55, 45, 15), database: open, state: moving, balanced: true},
		{name: "confirmed and acknowledged meanwhile", before: in(50, 50, 20), after: in(50, 50, 5), database: open, state: moving, balanced: true},
		{name: "given back meanwhile", before: in(50, 50, 10), after: in(51, 51, 9), database: open, state: moving, balanced: true},
		{name: "confirmed, not acknowledged", before: in(50, 50, 20), after: in(50, 50, 20), database: open, unacknowledged: 10, state: atRest, balanced: true},
		{name: "confirmed, not acknowledged, and one too many", before: in(50, 50, 21), after: in(50, 50, 21), database: open, unacknowledged: 10, state: atRest, drift: -1},
		{name: "stock that nobody can buy", before: in(40, 57, 0), after: in(40, 57, 0), database: open, state: atRest, drift: 3},
		{name: "the same in the middle of a sale", before: in(50, 47, 10), after: in(55, 42, 15), database: open, state: moving, drift: 3},
		{name: "stock that is not there", before: in(40, 63, 0), after: in(40, 63, 0), database: open, state: atRest, drift: -3},
		{name: "Redis is behind", before: in(39, 60, 0), after: in(39, 60, 0), database: open, state: atRest},
		{name: "Redis is empty", before: standingInRedis{missing}, after: standingInRedis{missing}, database: open, state: closed, balanced: true},
		{name: "closed in the database", before: in(40, 99, 0), after: in(40, 99, 0), database: order.Standing{Epoch: 3, Seq: []int64{0}, Stock: 60}, state: closed, balanced: true},
		{name: "opened meanwhile", before: standingInRedis{{epoch: 1, stock: -1}}, after: in(40, 60, 0), database: open, state: closed, balanced: true},
		{name: "new", before: standingInRedis{missing}, after: standingInRedis{missing}, database: order.Standing{Epoch: 1, Seq: []int64{0}, Stock: 60}, state: neverOpened, balanced: true},
		{name: "an order without stock", before: in(40, 60, 0), after: in(40, 60, 0), database: open,
			audit: &order.Audit{InitialStock: 100, Stock: 60, Orders: 41, DistinctUsers: 41}, state: atRest},
		{name: "two orders of one user", before: in(40, 60, 0), after: in(40, 60, 0), database: open,
			audit: &order.Audit{InitialStock: 100, Stock: 60, Orders: 40, DistinctUsers: 39}, state: atRest},
		{name: "split, drawn", before: drawn, after: drawn, database: halves, state: atRest, balanced: true},
		{name: "split, in transit", before: standingInRedis{part(21, 20, 10), part(20, 30, 0)}, after: standingInRedis{part(21, 20, 10), part(20, 30, 0)},
			database: halves, state: atRest, balanced: true},
		// The giver was read before it gave, the taker after it had taken.
		{name: "split, drawn between the readings", before: standingInRedis{part(20, 30, 0), part(21, 40, -10)}, after: drawn,
			database: halves, state: moving, balanced: true},
		{name: "split, stock that is not there", before: standingInRedis{part(21, 23, 7), part(21, 40, -7)}, after: standingInRedis{part(21, 23, 7), part(21, 40, -7)},
			database: halves, state: atRest, drift: -3},
		{name: "split, one bucket is behind", before: drawn, after: drawn, database: order.Standing{Epoch: 2, Seq: []int64{20, 22}, Stock: 60}, state: atRest},
		{name: "split, one bucket is empty", before: standingInRedis{part(20, 30, 0), missing}, after: standingInRedis{part(20, 30, 0), missing},
			database: halves, state: closed, balanced: true},
		{name: "split, one bucket is not open yet", before: standingInRedis{part(20, 30, 0), {epoch: 1, seq: 20, stock: 9}}, after: standingInRedis{part(20, 30, 0), {epoch: 1, seq: 20, stock: 9}},
			database: halves, state: closed, balanced: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := look{before: tc.before, after: tc.after, database: tc.database, audit: tc.audit, unacknowledged: tc.unacknowledged}
			if l.state() != tc.state || l.drift() != tc.drift || l.balanced() != tc.balanced {
				t.Errorf("%s, drift %d, balanced %v; want %s, %d, %v", l.state(), l.drift(), l.balanced(), tc.state, tc.drift, tc.balanced)
			}
		})
	}
}

// A table with a voucher that was read while it moved says what that means.
func TestReconcileTableOfWhatMoves(t *testing.T) {
	for s, noted := range map[state]bool{atRest: false, moving: true} {
		var out strings.Builder
		report := reportJSON{Vouchers: []equationJSON{{VoucherID: "7", State: s, Balanced: true}}}
		if err := report.table(&out); err != nil || strings.Contains(out.String(), "\nmoving: read at several moments") != noted {
			t.Errorf("%s, %v:\n%s", s, err, out.String())
		}
	}
}

// reconcile runs the command in a process of its own.
func reconcile(t *testing.T, s servers, args ...string) (exit int, output string, r reportJSON) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, append([]string{"reconcile"}, args...)...)
	cmd.Env = append(os.Environ(), "SECKILL_TEST_AS_SERVICE=1", "SECKILL_MYSQL_DSN="+s.db.DSN, "SECKILL_REDIS_ADDRS="+strings.Join(s.redis, ","))
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		failed, isExit := errors.AsType[*exec.ExitError](err)
		if !isExit {
			t.Fatal(err)
		}
		exit = failed.ExitCode()
	}
	if strings.HasPrefix(out.String(), "{") {
		if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
			t.Errorf("%v: %s", err, out.String())
		}
	}
	return exit, out.String() + errs.String(), r
}

// storesOf connects this process to the servers too.
func storesOf(t *testing.T, s servers) *stores {
	t.Helper()
	all, err := openStores(t.Context(), config{MySQLDSN: s.db.DSN, RedisAddrs: s.redis}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = all.close() })
	return all
}

func TestReconcile(t *testing.T) {
	const users, stock = 1500, 1000
	s := sharedServers(t)
	p := startProcess(t, s)
	shop := openShop(t, stock, admissionPolicy, p)

	// In the middle of the sale nothing is wrong either.
	selling, end := context.WithCancel(t.Context())
	var buyers sync.WaitGroup
	buyers.Go(func() {
		defer end()
		codes, _ := shop.rush(users, 1, func(int) { time.Sleep(40 * time.Millisecond) })
		t.Log(codes)
	})
	stores := storesOf(t, s)
	rec := newReconciler(stores.redis, stores.db)
	rec.pause = 10 * time.Millisecond
	id, err := strconv.ParseInt(shop.voucher, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[state]int{}
	for selling.Err() == nil {
		f := rec.settle(t.Context(), []order.Sale{{VoucherID: id, Buckets: 1}}, func(int64, standingInRedis) bool { return true })[0]
		if f.err != nil || !f.balanced() {
			t.Errorf("during the sale: %+v", f)
		}
		seen[f.state()]++
	}
	buyers.Wait()
	if seen[moving] == 0 {
		t.Errorf("nothing moved: %v", seen)
	}
	t.Log(seen)

	shop.atRest(0)
	p.Kill()
	<-p.Done()
	exit, output, r := reconcile(t, s, "--json", "--voucher", shop.voucher)
	v := r.Vouchers[0]
	if exit != 0 || !r.Balanced || v.State != atRest || v.InitialStock != stock || v.Confirmed != stock || v.Redis != v.Database || v.Redis.Seq != stock {
		t.Errorf("at rest: %d %s", exit, output)
	}
	exit, output, _ = reconcile(t, s)
	if exit != 0 || !strings.Contains(output, "1 of 1 vouchers balance") {
		t.Errorf("as a table: %d %s", exit, output)
	}
	t.Log("\n" + output)

	for _, wrong := range [][]string{{"--voucher", "1"}, {"--voucher", "x"}, {"surplus"}} {
		if exit, output, _ := reconcile(t, s, wrong...); exit != 2 {
			t.Errorf("%v: %d %s", wrong, exit, output)
		}
	}
	brokenStock(t, s, shop)
}

func TestReconcileOnARedisCluster(t *testing.T) {
	s := servers{db: testkit.MariaDB(t), redis: testkit.RedisCluster(t)}
	p := startProcess(t, s)
	for range 3 { // in as many slots
		shop := openShop(t, 5, admissionPolicy, p)
		shop.rush(3, 1, nil)
		shop.atRest(0)
	}
	exit, output, r := reconcile(t, s, "--json")
	if exit != 0 || len(r.Vouchers) != 3 {
		t.Fatalf("%d %s", exit, output)
	}
	for _, v := range r.Vouchers {
		if v.State != atRest || *v.RedisStock != 2 || v.Confirmed != 3 {
			t.Errorf("%+v", v)
		}
	}
}

// brokenStock breaks what a voucher has, one thing after the other.
func brokenStock(t *testing.T, s servers, shop *shop) {
	client := redis.NewClient(&redis.Options{Addr: s.redis[0]})
	t.Cleanup(func() { _ = client.Close() })
	db, err := sql.Open("mysql", s.db.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	id, err := strconv.ParseInt(shop.voucher, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	keys := admkey.Of(keyPrefix, id, 0)
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, wantExit int, right func(v equationJSON) bool) {
		t.Helper()
		exit, output, r := reconcile(t, s, "--json")
		if exit != wantExit || len(r.Vouchers) != 1 || r.Balanced != (wantExit == 0) || !right(r.Vouchers[0]) {
			t.Errorf("%s: %d %s", what, exit, output)
		}
	}

	// What a process leaves that dies between writing an order and acknowledging it.
	var orderID, userID string
	do(db.QueryRowContext(t.Context(), "SELECT id, user_id FROM orders WHERE voucher_id = ? LIMIT 1", id).Scan(&orderID, &userID))
	entry, err := client.XAdd(t.Context(), &redis.XAddArgs{Stream: keys.Orders, Values: []string{"o", orderID, "u", userID}}).Result()
	do(err)
	expect("not acknowledged", 0, func(v equationJSON) bool { return v.Pending == 1 && v.Unacknowledged == 1 && v.Drift == 0 })
	do(client.XDel(t.Context(), keys.Orders, entry).Err())

	do(client.HIncrBy(t.Context(), keys.Meta, admkey.Stock, 3).Err())
	expect("three too many in Redis", 1, func(v equationJSON) bool { return v.Drift == -3 && v.DatabaseDrift == 0 })
	do(client.HIncrBy(t.Context(), keys.Meta, admkey.Stock, -3).Err())

	do(client.HIncrBy(t.Context(), keys.Meta, admkey.Seq, -1).Err())
	expect("Redis is behind", 1, func(v equationJSON) bool { return v.Redis.Seq == v.Database.Seq-1 })
	do(client.HIncrBy(t.Context(), keys.Meta, admkey.Seq, 1).Err())

	_, err = db.ExecContext(t.Context(), "DELETE FROM orders WHERE id = ?", orderID)
	do(err)
	expect("an order is gone from the database", 1, func(v equationJSON) bool { return v.Drift == 0 && v.DatabaseDrift == 1 })
	_, err = db.ExecContext(t.Context(), "UPDATE vouchers SET stock = stock + 1 WHERE id = ?", id)
	do(err)
	expect("and its stock was given back there alone", 1, func(v equationJSON) bool { return v.Drift == 1 && v.DatabaseDrift == 0 })

	do(client.Del(t.Context(), keys.Meta).Err())
	expect("Redis was emptied", 0, func(v equationJSON) bool { return v.State == closed && v.RedisStock == nil })
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
	s := servers{db: testkit.MariaDB(t), redis: []string{testkit.Redis(t).Addr()}}
	shop := openShop(t, 20, admissionPolicy, startProcess(t, s))
	shop.rush(10, 1, nil)
	shop.atRest(0)

	var logs strings.Builder
	log := slog.New(slog.NewTextHandler(&logs, nil))
	stores := storesOf(t, s)
	registry := prometheus.NewRegistry()
	w, err := newReconcileWatch(newReconciler(stores.redis, stores.db), registry, log)
	if err != nil {
		t.Fatal(err)
	}
	w.pause = 10 * time.Millisecond
	expect := func(what string, balanced, unbalanced, drift float64, logged string) {
		t.Helper()
		for range 2 { // the second time there is no news
			w.check(t.Context())
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
	id, _ := strconv.ParseInt(shop.voucher, 10, 64)
	meta := admkey.Of(keyPrefix, id, 0).Meta
	expect("right", 1, 0, 0, "")
	for _, by := range []int64{2, 3} {
		if err := stores.redis.HIncrBy(t.Context(), meta, admkey.Stock, by).Err(); err != nil {
			t.Fatal(err)
		}
		expect("too much in Redis", 0, 1, map[int64]float64{2: 2, 3: 5}[by], "a voucher does not balance")
	}
	if err := stores.redis.HIncrBy(t.Context(), meta, admkey.Stock, -5).Err(); err != nil {
		t.Fatal(err)
	}
	expect("right again", 1, 0, 0, "a voucher balances again")
	if w.counted[id] != 10 {
		t.Errorf("counted: %v", w.counted)
	}
	if time.Since(time.Unix(int64(gathered(t, registry, "seckill_reconcile_last_timestamp_seconds", "")), 0)) > time.Minute {
		t.Error("not just now")
	}
}

// What runs embedded reconciles itself too.
func TestReconcileWatchEmbedded(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	stores, err := openStores(t.Context(), config{Embedded: true}, slog.New(slog.DiscardHandler))
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
	w, err := newReconcileWatch(newReconciler(stores.redis, stores.db), registry, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w.pause = time.Millisecond
	expect := func(balanced float64, want state) {
		t.Helper()
		w.check(t.Context())
		if got := gathered(t, registry, "seckill_reconcile_vouchers", "state=balanced"); got != balanced {
			t.Errorf("%v balanced, want %v", got, balanced)
		}
		if l, err := w.look(t.Context(), order.Sale{VoucherID: 7, Buckets: 1}, func(int64, standingInRedis) bool { return false }); err != nil || l.state() != want {
			t.Errorf("%s, %v; want %s", l.state(), err, want)
		}
	}
	expect(1, neverOpened)
	closedStanding, err := stores.db.Shelf().Close(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stores.db.Shelf().Open(t.Context(), 7, closedStanding.Epoch); err != nil {
		t.Fatal(err)
	}
	expect(1, closed)
	meta := admkey.Of(keyPrefix, 7, 0).Meta
	for stock, balanced := range map[string]float64{"5": 1, "4": 0} {
		if err := stores.redis.HSet(t.Context(), meta, admkey.Epoch, closedStanding.Epoch+1, admkey.Seq, 0, admkey.Stock, stock).Err(); err != nil {
			t.Fatal(err)
		}
		expect(balanced, atRest)
	}
}
