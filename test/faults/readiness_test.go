package faults

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// readyFlows returns the status of /readyz, and by flow whether it works and how many vouchers are sold by it.
func readyFlows(t *testing.T, p harness.Process) (status int, flows map[string]flowState) {
	t.Helper()
	status, body := harness.Call(t, http.MethodGet, p.URL+"/readyz?verbose=1", nil, "")
	var answer struct{ Flows map[string]flowState }
	fail.NowIf(t, json.Unmarshal([]byte(body), &answer), "%d %s", status, body)
	return status, answer.Flows
}

type flowState struct {
	Ready    bool
	Vouchers int
	Failing  []string
}

// waitSold waits until the instance knows that a voucher is sold by a flow.
func waitSold(t *testing.T, p harness.Process, flow string) {
	t.Helper()
	testkit.Until(t, "the voucher is counted", func() bool {
		_, flows := readyFlows(t, p)
		return flows[flow].Vouchers == 1
	})
}

// The database stops during a sale by admission: the instance stays in the balancer, and every order is accepted. Then
// Redis stops too: it leaves. Both come back: every accepted order is in the database. Both die once more, and so the
// service cannot tell them that it ends; that is no failure of the stop.
func TestReadyWhileAdmissionSells(t *testing.T) {
	t.Parallel()
	mariadb, redis := testkit.NewMariaDB(t), testkit.NewRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	p := harness.Start(t, harness.Stores{DB: mariadb.Database(t), Redis: []string{redis.Addr()}})
	sale := harness.OpenSale(t, 2000, `{"flow":"admission"}`, p)
	waitSold(t, p, "admission")
	if got := sale.BuyUntilAnswered(0, 5000, "first"); got.Code != "accepted" { // the process knows the voucher
		t.Fatalf("told %+v", got)
	}
	mariadb.Kill()
	testkit.Until(t, "the outage is seen", func() bool {
		_, flows := readyFlows(t, p)
		return slices.Equal(flows["locked-redis"].Failing, []string{"database"})
	})
	codes, orders := sale.OrderAllUntilAnswered(300)
	if codes["accepted"] != 300 || len(orders) != 300 {
		t.Errorf("while the database is stopped, buyers are told %v", codes)
	}
	status, flows := readyFlows(t, p)
	if status != http.StatusOK || !flows["admission"].Ready || flows["locked-mysql"].Ready {
		t.Errorf("the database is stopped: %d %+v", status, flows)
	}
	if status, _ := harness.Call(t, http.MethodGet, p.URL+"/readyz?strict=1", nil, ""); status != http.StatusServiceUnavailable {
		t.Errorf("strict: %d", status)
	}
	_, metrics := harness.Call(t, http.MethodGet, p.URL+"/metrics", nil, "")
	for _, want := range []string{"seckill_ready 1", `seckill_check_ok{check="database"} 0`, `seckill_flow_ready{flow="admission"} 1`, `seckill_flow_vouchers{flow="admission"} 1`} {
		if !strings.Contains(metrics, "\n"+want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	redis.Kill()
	testkit.Until(t, "not ready while both are stopped", func() bool { return !harness.Ready(t.Context(), p.URL) })
	redis.Restart()
	mariadb.Restart()
	harness.WaitReady(t, p)
	waitForOrders(sale, len(orders)+1)
	testkit.Until(t, "the audit is balanced", func() bool { return sale.Audit(0).Balanced })
	sale.CheckBalanced(0, codes, orders)
	mariadb.Kill()
	redis.Kill()
	fail.Unequal(t, sale.Buy(0, 5001, "").Code, "unavailable", "a buyer while both servers are dead")
	p.Terminate()
	fail.If(t, p.Wait(), "the end of the process")
}

// Redis stops while only vouchers with a lock in MySQL are sold: the instance stays in the balancer and sells, also
// after the machine ids of Redis are over. The database stops too: no voucher can be bought, and the instance leaves,
// also when Redis is back.
func TestReadyWhileMySQLLocks(t *testing.T) {
	t.Parallel()
	mariadb, redis := testkit.NewMariaDB(t), testkit.NewRedis(t)
	p := harness.Start(t, harness.Stores{DB: mariadb.Database(t), Redis: []string{redis.Addr()}})
	sale := harness.OpenSale(t, 100_000, `{"lock":"mysql-get-lock"}`, p)
	waitSold(t, p, "locked-mysql")
	redis.Kill()
	testkit.Until(t, "the outage is seen", func() bool {
		_, flows := readyFlows(t, p)
		return slices.Contains(flows["locked-redis"].Failing, "redis")
	})
	const leaseOfRedis = 10 * time.Second // idworker's default
	user := 0
	for end := time.Now().Add(leaseOfRedis + time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		user++
		fail.NowUnequal(t, sale.BuyUntilAnswered(0, user, "key-"+strconv.Itoa(user)).Code, "created", "order %d, Redis stopped", user)
		if status, flows := readyFlows(t, p); status != http.StatusOK || !flows["locked-mysql"].Ready || flows["admission"].Ready {
			t.Fatalf("Redis is stopped: %d %+v", status, flows)
		}
	}
	mariadb.Kill()
	testkit.Until(t, "not ready while both are stopped", func() bool { return !harness.Ready(t.Context(), p.URL) })
	redis.Restart()
	testkit.Until(t, "Redis is seen", func() bool {
		_, flows := readyFlows(t, p)
		return slices.Equal(flows["locked-redis"].Failing, []string{"database"})
	})
	if harness.Ready(t.Context(), p.URL) {
		t.Error("ready, and no voucher can be bought")
	}
	mariadb.Restart()
	harness.WaitReady(t, p)
	if a := sale.Audit(0); a.Orders != user || !a.Balanced {
		t.Errorf("%d were created, %+v", user, a)
	}
}

// Both servers answer, and take no writes: Redis because too few replicas follow it, the database because of a backup's
// lock. Neither flow accepts an order meanwhile, and none is called ready.
func TestNotReadyWhileWritesAreRefused(t *testing.T) {
	t.Parallel()
	mariadb, redis := testkit.NewMariaDB(t), testkit.NewRedis(t)
	p := harness.Start(t, harness.Stores{DB: mariadb.Database(t), Redis: []string{redis.Addr()}})
	harness.OpenSale(t, 100, `{"flow":"admission"}`, p)
	waitSold(t, p, "admission")
	failing := func(flow string, want ...string) {
		t.Helper()
		testkit.Until(t, flow+" fails because of "+strings.Join(want, ", "), func() bool {
			_, flows := readyFlows(t, p)
			return slices.Equal(flows[flow].Failing, want)
		})
	}
	client := redis.Client(t)
	for _, setting := range [][2]string{{"min-replicas-to-write", "1"}, {"maxmemory", "1"}} {
		before := client.ConfigGet(t.Context(), setting[0]).Val()[setting[0]]
		fail.NowIf(t, client.ConfigSet(t.Context(), setting[0], setting[1]).Err())
		failing("admission", "redis")
		fail.NowIf(t, client.Ping(t.Context()).Err())
		if harness.Ready(t.Context(), p.URL) {
			t.Errorf("%s is %s, and the instance is ready", setting[0], setting[1])
		}
		fail.NowIf(t, client.ConfigSet(t.Context(), setting[0], before).Err())
		harness.WaitReady(t, p)
	}

	db, err := sql.Open("mysql", mariadb.Database(t).DSN)
	fail.NowIf(t, err)
	defer db.Close()
	backup, err := db.Conn(t.Context())
	fail.NowIf(t, err)
	defer backup.Close()
	_, err = backup.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK")
	fail.NowIf(t, err)
	failing("locked-redis", "database")
	failing("locked-mysql", "database")
	failing("admission")
	fail.NowIf(t, db.PingContext(t.Context()))
	_, err = backup.ExecContext(t.Context(), "UNLOCK TABLES")
	fail.NowIf(t, err)
	failing("locked-redis")
}
