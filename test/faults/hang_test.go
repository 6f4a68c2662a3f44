package faults

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/testkit"
	"seckill/test/harness"
)

// behindProxy returns a database that is reached through a proxy.
func behindProxy(t *testing.T, db testkit.Database) (testkit.Database, *testkit.Proxy) {
	t.Helper()
	dsn, err := mysql.ParseDSN(db.DSN)
	if err != nil {
		t.Fatal(err)
	}
	line := testkit.NewProxy(t, dsn.Addr)
	dsn.Addr = line.Addr()
	return testkit.Database{Engine: db.Engine, DSN: dsn.FormatDSN()}, line
}

// While the database neither answers nor refuses, each read ends by itself within its deadline of 10 s, however many
// others hang: none waits for another.
func TestReadsWhileTheDatabaseHangs(t *testing.T) {
	db, line := behindProxy(t, testkit.MariaDB(t))
	a := harness.Start(t, harness.Stores{DB: db, Redis: []string{testkit.Redis(t).Addr()}})
	sale := harness.OpenSale(t, 5, harness.AdmissionPolicy, a)
	got := sale.BuyUntilAnswered(0, 1, "first")
	if got.Code != "accepted" {
		t.Fatalf("%+v", got)
	}
	line.BlackholeReplies()
	const each, deadline, slack = 40, 10 * time.Second, 500 * time.Millisecond
	var mu sync.Mutex
	took, statuses := map[string][]time.Duration{}, map[string]map[int]int{}
	var readers sync.WaitGroup
	for _, path := range []string{"/api/v1/orders", "/api/v1/orders/" + got.Order, "/api/v1/orders/" + got.Order + "?wait=1s", "/api/v1/vouchers/77"} {
		statuses[path] = map[int]int{}
		for user := range each { // each has limits of its own
			readers.Go(func() {
				watch := testkit.StartStopwatch()
				status, _ := harness.Call(t, http.MethodGet, a.URL+path, http.Header{"X-User-Id": {strconv.Itoa(1 + user)}}, "")
				mu.Lock()
				defer mu.Unlock()
				took[path] = append(took[path], watch.Stop())
				statuses[path][status]++
			})
		}
	}
	readers.Wait()
	for path, took := range took {
		first, last := slices.Min(took), slices.Max(took)
		t.Logf("%s: %v to %v, %v", path, first.Round(time.Millisecond), last.Round(time.Millisecond), statuses[path])
		if last > deadline+slack || statuses[path][http.StatusServiceUnavailable] != each {
			t.Errorf("%s: %v to %v, %v; want %d within %v", path, first, last, statuses[path], http.StatusServiceUnavailable, deadline)
		}
		// One after the other they would end 3 s apart, or at the deadline.
		if last-first > time.Second {
			t.Errorf("%s: %v to %v: some waited for others", path, first, last)
		}
	}
}

// An audit is needed after an outage, and its lock only saves work. So the audit works while the server of the
// lock hangs too.
func TestAuditWhileRedisHangs(t *testing.T) {
	server := testkit.NewRedis(t)
	a := harness.Start(t, harness.Stores{DB: testkit.MariaDB(t), Redis: []string{server.Addr()}})
	sale := harness.OpenSale(t, 5, `{}`, a)
	if got := sale.BuyUntilAnswered(0, 1, "first"); got.Code != "created" {
		t.Fatalf("%+v", got)
	}
	server.Pause()
	defer server.Resume()
	status, body := harness.Call(t, http.MethodGet, a.URL+"/api/v1/vouchers/"+sale.Voucher+"/audit", nil, "")
	if status != http.StatusOK || !strings.Contains(body, `"orders":1`) {
		t.Errorf("audit: %d %s", status, body)
	}
	a.WaitLine(t, `carried out without its lock`)
}

// Data from a client fills neither the log nor a label.
func TestLongMethodIsNotLoggedWhole(t *testing.T) {
	a := harness.Start(t, harness.NewStores(t).With("SECKILL_LOG_LEVEL=debug"))
	const long = 7_000
	status, _ := harness.Call(t, strings.Repeat("M", long), a.URL+"/api/v1/vouchers/"+strings.Repeat("v", long), nil, "")
	if status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
		t.Errorf("status %d", status)
	}
	a.WaitLine(t, `"method":"M`)
	_, metrics := harness.Call(t, http.MethodGet, a.URL+"/metrics", nil, "")
	for where, text := range map[string]string{"log": a.Output(), "metrics": metrics} {
		if strings.Contains(text, strings.Repeat("M", 100)) || strings.Contains(text, strings.Repeat("v", 100)) {
			t.Errorf("the %s has more than 100 bytes in a row of what the client sent", where)
		}
	}
}
