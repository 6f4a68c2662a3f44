package sale

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/database"
	"seckill/internal/reconcile"
	"seckill/internal/service"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// A voucher that is split is sold over two processes, to more buyers than there is stock and most of them of one
// bucket. Whenever one looks it balances; in the end all is sold.
func TestSplitSaleBalances(t *testing.T) {
	t.Parallel()
	const users, stock = 800, 300
	buckets := 4
	s := harness.Stores{DB: testkit.MariaDB(t), Redis: testkit.RedisCluster(t)}
	a, b := harness.Start(t, s), harness.Start(t, s)
	sale := harness.OpenSale(t, stock, fmt.Sprintf(`{"flow":"admission","buckets":%d}`, buckets), a, b)
	id, err := strconv.ParseInt(sale.Voucher, 10, 64)
	fail.NowIf(t, err)
	var skewed []int
	for user := 1; len(skewed) < users; user++ {
		if bucket := ledger.BucketOf(int64(user), buckets); bucket == 0 || user%8 == 0 {
			skewed = append(skewed, user)
		}
	}
	orders := map[string]int{}
	var mu sync.Mutex
	var buyers sync.WaitGroup
	for c := range harness.Connections {
		buyers.Go(func() {
			for n := c; n < users; n += harness.Connections {
				got := sale.Buy(n, skewed[n], "")
				mu.Lock()
				if got.Order != "" {
					orders[got.Order] = skewed[n]
				}
				mu.Unlock()
				time.Sleep(20 * time.Millisecond) // as buyers come
			}
		})
	}
	selling, end := context.WithCancel(t.Context())
	go func() {
		defer end()
		buyers.Wait()
	}()
	stores := storesOf(t, s)
	sale.Buckets = buckets
	rec := service.NewReconciler(stores.redis, stores.db, service.KeyPrefix)
	rec.Pause = 10 * time.Millisecond
	seen := map[reconcile.State]int{}
	for selling.Err() == nil {
		f := rec.Check(t.Context(), []contract.AdmissionVoucher{{VoucherID: id, Buckets: buckets}})[0]
		if f.Err != nil || !f.Balanced() {
			t.Errorf("during the sale: %+v", f)
		}
		seen[f.State()]++
	}
	t.Logf("%v; %d buckets", seen, buckets)
	sale.CheckAllConfirmed(stock, orders)

	// The command says so without any service, and sees what is broken by hand.
	a.Kill()
	b.Kill()
	expect := func(what string, wantExit int, right func(v reconcile.Equation) bool) {
		t.Helper()
		exit, output, r := harness.RunReconcile(t, s, "-json", "-voucher", sale.Voucher)
		if exit != wantExit || len(r.Vouchers) != 1 || r.Balanced != (wantExit == 0) || !right(r.Vouchers[0]) {
			t.Errorf("%s: %d %s", what, exit, output)
		}
	}
	expect("at rest", 0, func(v reconcile.Equation) bool {
		return v.State == reconcile.AtRest && v.InitialStock == stock && *v.RedisStock == 0 && v.Confirmed == stock
	})
	if exit, output, _ := harness.RunReconcile(t, s); exit != 0 || !strings.Contains(output, "1 of 1 vouchers balance") {
		t.Errorf("as a table: %d %s", exit, output)
	}
	for _, wrong := range [][]string{{"--voucher", "1"}, {"--voucher", "x"}, {"surplus"}} {
		if exit, output, _ := harness.RunReconcile(t, s, wrong...); exit != 2 {
			t.Errorf("%v: %d %s", wrong, exit, output)
		}
	}
	fail.NowIf(t, stores.redis.HIncrBy(t.Context(), sale.Keys().Meta, ledger.FieldStock, 3).Err())
	expect("three too many in Redis", 1, func(v reconcile.Equation) bool { return v.Drift == -3 && v.DatabaseDrift == 0 })
}

// stores are a test's own connections to the stores of a service.
type stores struct {
	redis redis.UniversalClient
	db    *database.DB
}

// storesOf connects this process to the servers too.
func storesOf(t *testing.T, s harness.Stores) *stores {
	t.Helper()
	db, err := database.Open(t.Context(), database.Config{MySQL: s.DB.DSN, Logger: slog.New(slog.DiscardHandler)})
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = db.Close() })
	fail.NowIf(t, fail.Of(db.Migrate(t.Context())))
	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: s.Redis})
	t.Cleanup(func() { _ = client.Close() })
	return &stores{client, db}
}
