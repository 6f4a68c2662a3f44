package main

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/testkit"
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

// While the database neither answers nor refuses, each read ends by itself within its deadline, however many
// others hang.
func TestReadsWhileTheDatabaseHangs(t *testing.T) {
	db, line := behindProxy(t, testkit.MariaDB(t))
	a := startProcess(t, servers{db: db, redis: []string{testkit.Redis(t).Addr()}})
	sale := openSale(t, 5, admissionPolicy, a)
	got := sale.buyUntilAnswered(0, 1, "first")
	if got.code != "accepted" {
		t.Fatalf("%+v", got)
	}
	line.BlackholeReplies()
	const each, deadline = 40, 10 * time.Second
	var mu sync.Mutex
	slowest, statuses := map[string]time.Duration{}, map[string]map[int]int{}
	var readers sync.WaitGroup
	for _, path := range []string{"/api/v1/orders", "/api/v1/orders/" + got.order, "/api/v1/orders/" + got.order + "?wait=1s"} {
		statuses[path] = map[int]int{}
		for user := range each { // each has limits of its own
			readers.Go(func() {
				begun := time.Now()
				status, _ := call(t, http.MethodGet, a.url+path, http.Header{"X-User-Id": {strconv.Itoa(1 + user)}}, "")
				mu.Lock()
				defer mu.Unlock()
				slowest[path] = max(slowest[path], time.Since(begun))
				statuses[path][status]++
			})
		}
	}
	readers.Wait()
	for path, took := range slowest {
		t.Logf("%s: %v at most, %v", path, took.Round(time.Millisecond), statuses[path])
		// A busy machine may add a little.
		if took > deadline+5*time.Second || statuses[path][http.StatusServiceUnavailable] != each {
			t.Errorf("%s: %v at most, %v; want %d within %v", path, took, statuses[path], http.StatusServiceUnavailable, deadline)
		}
	}
}

// An audit is needed after an outage, and its lock only saves work. So the audit works while the server of the
// lock hangs too.
func TestAuditWhileRedisHangs(t *testing.T) {
	server := testkit.NewRedis(t)
	a := startProcess(t, servers{db: testkit.MariaDB(t), redis: []string{server.Addr()}})
	sale := openSale(t, 5, `{}`, a)
	if got := sale.buyUntilAnswered(0, 1, "first"); got.code != "created" {
		t.Fatalf("%+v", got)
	}
	server.Pause()
	defer server.Resume()
	status, body := call(t, http.MethodGet, a.url+"/api/v1/vouchers/"+sale.voucher+"/audit", nil, "")
	if status != http.StatusOK || !strings.Contains(body, `"orders":1`) {
		t.Errorf("audit: %d %s", status, body)
	}
	a.WaitLine(t, `carried out without its lock`)
}

// Data from a client fills neither the log nor a label.
func TestLongMethodIsNotLoggedWhole(t *testing.T) {
	a := startProcess(t, sharedServers(t).with("SECKILL_LOG_LEVEL=debug"))
	const long = 7_000
	status, _ := call(t, strings.Repeat("M", long), a.url+"/api/v1/vouchers/"+strings.Repeat("v", long), nil, "")
	if status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
		t.Errorf("status %d", status)
	}
	a.WaitLine(t, `"method":"M`)
	_, metrics := call(t, http.MethodGet, a.url+"/metrics", nil, "")
	for where, text := range map[string]string{"log": a.Output(), "metrics": metrics} {
		if strings.Contains(text, strings.Repeat("M", 100)) || strings.Contains(text, strings.Repeat("v", 100)) {
			t.Errorf("the %s has more than 100 bytes in a row of what the client sent", where)
		}
	}
}
