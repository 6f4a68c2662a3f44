package faults

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// behindProxy returns a database that is reached through a proxy.
func behindProxy(t *testing.T, db testkit.Database) (testkit.Database, *testkit.Proxy) {
	t.Helper()
	dsn, err := mysql.ParseDSN(db.DSN)
	fail.NowIf(t, err)
	line := testkit.NewProxy(t, dsn.Addr)
	dsn.Addr = line.Addr()
	return testkit.Database{Engine: db.Engine, DSN: dsn.FormatDSN()}, line
}

// While the database neither answers nor refuses, each read ends by itself, however many others hang.
func TestReadsWhileTheDatabaseHangs(t *testing.T) {
	t.Parallel()
	readsWhileHanging(t, 10, nil)
}

// Each ends within its deadline: none waits for another.
func TestSoakReadsWhileTheDatabaseHangs(t *testing.T) {
	testkit.Soak(t)
	readsWhileHanging(t, 40, harness.NewFigures(t))
}

// readDeadline is that of a read, 10 s, and the time in which its refusal comes.
const readDeadline = 10*time.Second + 500*time.Millisecond

func readsWhileHanging(t *testing.T, each int, figures *harness.Figures) {
	t.Helper()
	db, line := behindProxy(t, testkit.MariaDB(t))
	a := harness.Start(t, harness.Stores{DB: db, Redis: []string{testkit.NewRedis(t).Addr()}})
	sale := harness.OpenSale(t, 5, harness.AdmissionPolicy, a)
	got := sale.BuyUntilAnswered(0, 1, "first")
	fail.NowUnequal(t, got.Code, "accepted")
	line.BlackholeReplies()
	var readers sync.WaitGroup
	for _, path := range []string{"/api/v1/orders", "/api/v1/orders/" + got.Order, "/api/v1/orders/" + got.Order + "?wait=1s", "/api/v1/vouchers/77"} {
		for user := range each { // each has limits of its own
			readers.Go(func() {
				begun := time.Now()
				status, body := harness.Call(t, http.MethodGet, a.URL+path, http.Header{"X-User-Id": {strconv.Itoa(1 + user)}}, "")
				figures.Took("GET "+strings.Replace(path, got.Order, "ID", 1), time.Since(begun), readDeadline)
				fail.Unequal(t, status, http.StatusServiceUnavailable, "GET %s: %s", path, body)
			})
		}
	}
	readers.Wait()
}
