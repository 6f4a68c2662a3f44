// Package stores has tests of databases and Redis servers that do not belong together.
package stores

import (
	"database/sql"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// refused checks that a process is not ready, places no order, and names both stores in its log.
func refused(t *testing.T, p harness.Process, sale *harness.Sale, names ...string) {
	t.Helper()
	there := *sale
	there.URLs = []string{p.URL}
	fail.Unequal(t, there.Buy(0, 1_000_001, "").Code, "unavailable", "the order")
	status, body := harness.Call(t, http.MethodGet, p.URL+"/readyz?verbose=1", nil, "")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, `"stores":"failing"`) {
		t.Errorf("readyz: %d %s", status, body)
	}
	for _, name := range append(names, "api adopt") {
		testkit.Until(t, "the log names "+name, func() bool { return strings.Contains(p.Output(), name) })
	}
}

// sellMeanwhile has users order at the processes, each until it is answered, while something happens. It returns the
// orders that were accepted, by their ids.
func sellMeanwhile(sale *harness.Sale, happens func()) map[string]int {
	var user atomic.Int64
	var mu sync.Mutex
	orders := map[string]int{}
	stop := harness.Again(8, func() {
		n := int(user.Add(1))
		got := sale.BuyUntilAnswered(n, n, "key-"+strconv.Itoa(n))
		mu.Lock()
		defer mu.Unlock()
		if orders[got.Order] = n; got.Code != "accepted" {
			sale.T.Errorf("user %d was told %+v", n, got)
		}
	})
	happens()
	stop()
	return orders
}

// enough is more than is sold while something happens.
const enough = 1_000_000

// checkOrders checks that the database has exactly these orders, and all of them are confirmed.
func checkOrders(t *testing.T, s harness.Stores, sale *harness.Sale, orders map[string]int) {
	t.Helper()
	if a := sale.AtRest(0); !a.Balanced || a.Orders != len(orders) {
		t.Errorf("%d were accepted: %+v", len(orders), a)
	}
	status := harness.Statuses(t, s.DB, sale.Voucher)
	for id, user := range orders {
		fail.Unequal(t, status[id], "confirmed", "order %s of user %d", id, user)
	}
	t.Logf("%d orders were accepted, and all of them are confirmed", len(orders))
}

// An instance is started with the database of another one and with another Redis. It is refused, and the other one
// sells. Then the other one is stopped, as in a rolling restart to a new address. All of its orders are in the
// database, and the new instance goes on where it ended.
func TestAnotherRedis(t *testing.T) {
	t.Parallel()
	s := harness.NewStores(t)
	a := harness.Start(t, s)
	harness.WaitReady(t, a)
	sale := harness.OpenSale(t, enough, harness.AdmissionPolicy, a)
	other := s
	other.Redis = []string{testkit.NewRedis(t).Addr()}
	var b harness.Process
	orders := sellMeanwhile(sale, func() {
		b = harness.Start(t, other)
		refused(t, b, sale, s.Redis[0], other.Redis[0])
		time.Sleep(3 * time.Second)
		refused(t, b, sale, s.Redis[0], other.Redis[0])
	})
	checkOrders(t, s, sale, orders)
	fail.NowIf(t, a.Stop())
	harness.WaitReady(t, b)
	sale.URLs = []string{b.URL}
	fail.Unequal(t, sale.BuyUntilAnswered(0, 1, "").Code, "already_ordered", "a second order of a user")
	_, more := sale.OrderAllBy(func(_, user int) harness.Outcome { return sale.BuyUntilAnswered(0, enough+user, "") }, 100, 1, nil)
	maps.Copy(orders, more)
	checkOrders(t, s, sale, orders)
}

// The first instance is killed, with accepted orders in its Redis. No other Redis is taken instead of it until an
// operator decides; with the former one nothing is lost.
func TestAnotherRedisAfterAKill(t *testing.T) {
	t.Parallel()
	const stock = 100
	s := harness.NewStores(t)
	a := harness.Start(t, s)
	harness.WaitReady(t, a)
	sale := harness.OpenSale(t, stock, harness.AdmissionPolicy, a)
	release := sale.HoldRow(s.DB) // the orders stay in Redis
	_, orders := sale.OrderAllUntilAnswered(stock / 2)
	a.Kill()
	release()
	other := s
	other.Redis = []string{testkit.NewRedis(t).Addr()}
	b := harness.Start(t, other)
	testkit.Until(t, "the other instance knows that nobody uses the stores", func() bool {
		return strings.Contains(b.Output(), "give this instance the former one")
	})
	refused(t, b, sale, s.Redis[0], other.Redis[0])
	a = harness.Start(t, s)
	harness.WaitReady(t, a)
	sale.URLs = []string{a.URL}
	_, more := sale.OrderAllUnder("later-", 2*stock)
	maps.Copy(orders, more)
	sale.CheckAllConfirmed(stock, orders)

	fail.NowIf(t, b.Stop())
	a.Kill()
	b = harness.Start(t, other)
	command := testkit.Start(t, testkit.Command{Path: harness.SelfPath(t), Args: []string{"adopt"}, Env: []string{
		harness.AsService, "SECKILL_MYSQL_DSN=" + other.DB.DSN, "SECKILL_REDIS_ADDRS=" + other.Redis[0],
	}})
	command.WaitLine(t, "they are a pair now")
	harness.WaitReady(t, b)
}

// A copy of the database is restored beside production, and an instance is started with it and with production's Redis.
// It is refused, and production has all of its orders.
func TestRestoredCopyBesideProduction(t *testing.T) {
	t.Parallel()
	s := harness.NewStores(t)
	a := harness.Start(t, s)
	harness.WaitReady(t, a)
	sale := harness.OpenSale(t, enough, harness.AdmissionPolicy, a)
	restored := s
	var copied int
	orders := sellMeanwhile(sale, func() {
		restored.DB = copyDatabase(t, s.DB)
		copied = len(harness.Statuses(t, restored.DB, sale.Voucher))
		b := harness.Start(t, restored)
		refused(t, b, sale, databaseOf(t, s.DB), databaseOf(t, restored.DB))
		time.Sleep(3 * time.Second)
		refused(t, b, sale, databaseOf(t, s.DB), databaseOf(t, restored.DB))
		fail.NowIf(t, b.Stop())
	})
	checkOrders(t, s, sale, orders)
	fail.Unequal(t, len(harness.Statuses(t, restored.DB, sale.Voucher)), copied, "orders in the copy")
}

func databaseOf(t *testing.T, d testkit.Database) string {
	t.Helper()
	c, err := mysql.ParseDSN(d.DSN)
	fail.NowIf(t, err)
	return c.DBName
}

// copyDatabase copies all tables into a new database of the same server.
func copyDatabase(t *testing.T, from testkit.Database) testkit.Database {
	t.Helper()
	c, err := mysql.ParseDSN(from.DSN)
	fail.NowIf(t, err)
	db, err := sql.Open("mysql", from.DSN)
	fail.NowIf(t, err)
	defer db.Close()
	name := c.DBName + "_copy"
	do := func(query string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), query)
		fail.NowIf(t, err)
	}
	do("CREATE DATABASE " + name)
	t.Cleanup(func() {
		again, err := sql.Open("mysql", from.DSN)
		if err == nil {
			_, _ = again.Exec("DROP DATABASE " + name)
			again.Close()
		}
	})
	tables := tablesOf(t, db)
	for _, table := range tables {
		do(fmt.Sprintf("CREATE TABLE %s.%s LIKE %s", name, table, table))
		do(fmt.Sprintf("INSERT INTO %s.%s SELECT * FROM %s", name, table, table))
	}
	c.DBName = name
	to := from
	to.DSN = c.FormatDSN()
	return to
}

func tablesOf(t *testing.T, db *sql.DB) (tables []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SHOW TABLES")
	fail.NowIf(t, err)
	defer rows.Close()
	for rows.Next() {
		var table string
		fail.NowIf(t, rows.Scan(&table))
		tables = append(tables, table)
	}
	fail.NowIf(t, rows.Err())
	return tables
}

func saleOverTwoProcesses(t *testing.T, stock int) (harness.Stores, *harness.Sale, *redis.Client) {
	t.Helper()
	s := harness.NewStores(t)
	a, b := harness.Start(t, s), harness.Start(t, s)
	harness.WaitReady(t, a, b)
	return s, harness.OpenSale(t, stock, harness.AdmissionPolicy, a, b), harness.RedisAt(t, s.Redis[0])
}

// Redis is emptied in the middle of a sale over two processes, as by a restart without persistence. The sale goes on
// without an operator until exactly all stock is sold.
func TestRedisIsEmptied(t *testing.T) {
	t.Parallel()
	const stock = 2000
	_, sale, client := saleOverTwoProcesses(t, stock)
	_, orders := sale.OrderAllUntilAnswered(stock / 4)
	sale.AtRest(0)
	fail.NowIf(t, client.FlushAll(t.Context()).Err())
	_, more := sale.OrderAllUnder("later-", 2*stock)
	maps.Copy(orders, more)
	sale.CheckAllConfirmed(stock, orders)
	if n, err := strconv.Atoi(client.HGet(t.Context(), "seckill:pair", "generation").Val()); err != nil || n < 1 {
		t.Errorf("generation %d, %v", n, err)
	}
}

// The database is restored to a time before the voucher was rebuilt. The sale goes on, and nothing is lost.
func TestDatabaseIsAnEpochBehind(t *testing.T) {
	t.Parallel()
	const stock = 1000
	s, sale, client := saleOverTwoProcesses(t, stock)
	db, err := sql.Open("mysql", s.DB.DSN)
	fail.NowIf(t, err)
	defer db.Close()
	_, orders := sale.OrderAllUntilAnswered(stock / 4)
	sale.AtRest(0)
	fail.NowIf(t, client.Del(t.Context(), sale.Keys().Meta).Err())
	_, more := sale.OrderAllUnder("later-", stock/2)
	_, err = db.ExecContext(t.Context(), "UPDATE vouchers SET admission_epoch = 2 WHERE id = ?", sale.Voucher)
	fail.NowIf(t, err)
	_, last := sale.OrderAllUnder("last-", 2*stock)
	maps.Copy(orders, more)
	maps.Copy(orders, last)
	sale.CheckAllConfirmed(stock, orders)
}
