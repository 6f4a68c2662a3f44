package main

import (
	"database/sql"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/testkit"
)

// However many read vouchers, the database is asked for each at most once in 100 ms, and for all pages but the first about
// 50 times a second. The median of orders beside them is logged.
func TestReadsAreServedFromMemory(t *testing.T) {
	mariadb := testkit.NewMariaDB(t)
	db := mariadb.Database(t)
	p := startProcess(t, servers{db: db, redis: []string{testkit.Redis(t).Addr()}}.with("SECKILL_MAX_REQUESTS_PER_ADDRESS=0"))
	sale := openSale(t, 1_000_000, `{}`, p)
	selects := selectsOf(t, db)
	const window = 2 * time.Second
	alone := median(sale.ordersFor(window, 1))

	// The service has queries of its own, without any reader.
	before, begun := selects(), time.Now()
	time.Sleep(window)
	idle := float64(selects()-before) / time.Since(begun).Seconds()

	var reads atomic.Int64
	before, begun = selects(), time.Now()
	const pages = 63 // as many as are cached beside the first
	stop := again(16, func() {
		page := strconv.FormatInt(1+reads.Load()%pages, 10)
		for _, path := range []string{"/" + sale.voucher, "?limit=100", "?limit=100&after=" + page} {
			if status := sale.see(path); status != http.StatusOK {
				t.Errorf("%s: %d", path, status)
			}
			reads.Add(1)
		}
	})
	time.Sleep(window)
	asked, took := float64(selects()-before), time.Since(begun)
	beside := median(sale.ordersFor(window, 1_000_000))
	stop()

	loads := asked - idle*took.Seconds()
	t.Logf("%d reads took %.0f queries in %v, of %.1f/s without readers; the median order took %v alone, %v beside the reads",
		reads.Load(), asked, took.Round(time.Millisecond), idle, alone, beside)
	// The voucher and the list, each at most once in 100 ms; the other pages, each once a second and 50 at first; and some of
	// the service's own.
	if most := 2*(took.Seconds()*10+1) + pages*(took.Seconds()+1) + 50 + 10; loads > most {
		t.Errorf("%.0f queries for readers in %v, want at most %.0f", loads, took, most)
	}
}

// A client asks for vouchers that do not exist, as often as it can. Meanwhile a voucher that another process has just
// created is shown and sold to others at their first request.
func TestUnknownVouchersTakeNothingFromOthers(t *testing.T) {
	mariadb := testkit.NewMariaDB(t)
	db := mariadb.Database(t)
	s := servers{db: db, redis: []string{testkit.Redis(t).Addr()}}
	a, b := startProcess(t, s), startProcess(t, s)
	flooded := openSale(t, 1, `{}`, a)
	selects := selectsOf(t, db)

	var asked atomic.Int64
	told := [600]atomic.Int64{}
	ask := func(method, path string, user int) {
		status, _ := call(t, method, a.url+"/api/v1/vouchers/"+path, http.Header{"X-User-Id": {strconv.Itoa(user)}}, "")
		told[status].Add(1)
		asked.Add(1)
	}
	unknown := func() string { return strconv.FormatInt(1<<61+rand.Int64N(1<<60), 10) }
	before, begun := selects(), time.Now()
	stopReads := again(16, func() { ask(http.MethodGet, unknown(), 1) })
	stopOrders := again(16, func() { ask(http.MethodPost, unknown()+"/orders", 1) })
	testkit.Until(t, "the flood is on", func() bool { return asked.Load() > 2000 })
	var slowest time.Duration
	for user := range 20 {
		fresh := openSale(t, 1, `{}`, b)
		fresh.urls = []string{a.url}
		sent := time.Now()
		if user%2 == 0 {
			if status := fresh.look(); status != http.StatusOK {
				t.Errorf("a new voucher is shown as %d", status)
			}
		} else if got := fresh.buy(0, 100+user, ""); got.code != "created" {
			t.Errorf("an order of a new voucher: %+v", got)
		}
		slowest = max(slowest, time.Since(sent))
	}
	if status := flooded.look(); status != http.StatusOK {
		t.Errorf("a known voucher is shown as %d", status)
	}
	stopReads()
	stopOrders()
	took := time.Since(begun)
	rate := float64(selects()-before) / took.Seconds()
	t.Logf("%.0f unknown ids/s: %d told 404, %d told 503; %.0f queries/s; a new voucher took %v at most",
		float64(asked.Load())/took.Seconds(), told[http.StatusNotFound].Load(), told[http.StatusServiceUnavailable].Load(), rate, slowest)
	if rate > 300 { // 200, and those of the sales
		t.Errorf("%.0f queries/s", rate)
	}
}

// ordersFor places orders one after the other for a while, and returns how long each took.
func (s *testSale) ordersFor(window time.Duration, firstUser int) (took []time.Duration) {
	for begun := time.Now(); time.Since(begun) < window; firstUser++ {
		sent := time.Now()
		if got := s.buy(0, firstUser, ""); got.code != "created" {
			s.t.Errorf("user %d: %+v", firstUser, got)
		}
		took = append(took, time.Since(sent))
	}
	return took
}

func median(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)/2].Round(10 * time.Microsecond)
}

// selectsOf returns how many SELECT the server of a database has answered.
func selectsOf(t *testing.T, db testkit.Database) func() int64 {
	t.Helper()
	pool, err := sql.Open("mysql", db.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return func() (n int64) {
		var name string
		if err := pool.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'Com_select'").Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
}
