package main

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
	"seckill/internal/lock/redis/red"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// Each mechanism belongs to the flow of the servers that it can be opened with.
func TestFlowOfEveryLock(t *testing.T) {
	var nobody []red.Client // opening talks to nobody
	for _, addr := range []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"} {
		client := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = client.Close() })
		nobody = append(nobody, client)
	}
	for flow, servers := range map[string]lockers.Servers{
		flowLocal:      {},
		flowRedis:      {Redis: nobody[0].(redis.UniversalClient)},
		flowRedisNodes: {Nodes: nobody},
		flowZooKeeper:  {ZooKeeper: []string{"127.0.0.1:1"}},
	} {
		set, err := lockers.Open(servers, lockers.Config{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range lock.Catalogue() {
			local := m.Name == "none" || m.Name == "local"
			got := flowOf(voucher.FlowLocked, m.Name) == flow
			if has := slices.Contains(set.Names(), m.Name) && (flow == flowLocal || !local); got != has {
				t.Errorf("%s is counted as %s, and %s has it: %v", m.Name, flowOf(voucher.FlowLocked, m.Name), flow, has)
			}
		}
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	}
	if flowOf(voucher.FlowLocked, "mysql-row") != flowMySQL || flowOf(voucher.FlowAdmission, "reentrant") != flowAdmission {
		t.Error("MySQL or admission is counted elsewhere")
	}
}

// readyFlows returns the status of /readyz, and by flow whether it works and how many vouchers are sold by it.
func readyFlows(t *testing.T, p process) (status int, flows map[string]flowState) {
	t.Helper()
	status, body := call(t, http.MethodGet, p.url+"/readyz?verbose=1", nil, "")
	var answer struct{ Flows map[string]flowState }
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	return status, answer.Flows
}

type flowState struct {
	Ready    bool
	Vouchers int
	Failing  []string
}

// waitSold waits until the instance knows that a voucher is sold by a flow.
func waitSold(t *testing.T, p process, flow string) {
	t.Helper()
	testkit.Until(t, "the voucher is counted", func() bool {
		_, flows := readyFlows(t, p)
		return flows[flow].Vouchers == 1
	})
}

// The database stops during a sale by admission: the instance stays in the balancer, and every order is accepted.
// Then Redis stops too: it leaves. Both come back: every accepted order is in the database.
func TestReadyWhileAdmissionSells(t *testing.T) {
	t.Parallel()
	mariadb, redis := testkit.NewMariaDB(t), testkit.NewRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	p := startProcess(t, servers{db: mariadb.Database(t), redis: []string{redis.Addr()}})
	sale := openSale(t, 2000, `{"flow":"admission"}`, p)
	waitSold(t, p, flowAdmission)
	if got := sale.buyUntilAnswered(0, 5000, "first"); got.code != "accepted" { // the process knows the voucher
		t.Fatalf("told %+v", got)
	}
	mariadb.Kill()
	testkit.Until(t, "the outage is seen", func() bool {
		_, flows := readyFlows(t, p)
		return slices.Equal(flows[flowRedis].Failing, []string{"database"})
	})
	codes, orders := sale.orderAllUntilAnswered(1000) // on a busy machine Redis may be late
	if codes["accepted"] != 1000 || len(orders) != 1000 {
		t.Errorf("while the database is stopped, buyers are told %v", codes)
	}
	status, flows := readyFlows(t, p)
	if status != http.StatusOK || !flows[flowAdmission].Ready || flows[flowMySQL].Ready {
		t.Errorf("the database is stopped: %d %+v", status, flows)
	}
	if status, _ := call(t, http.MethodGet, p.url+"/readyz?strict=1", nil, ""); status != http.StatusServiceUnavailable {
		t.Errorf("strict: %d", status)
	}
	_, metrics := call(t, http.MethodGet, p.url+"/metrics", nil, "")
	for _, want := range []string{"seckill_ready 1", `seckill_check_ok{check="database"} 0`, `seckill_flow_ready{flow="admission"} 1`, `seckill_flow_vouchers{flow="admission"} 1`} {
		if !strings.Contains(metrics, "\n"+want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	redis.Kill()
	testkit.Until(t, "not ready while both are stopped", func() bool { return !asksReady(t.Context(), p.url) })
	redis.Restart()
	mariadb.Restart()
	waitReady(t, p)
	sale.waitForOrders(len(orders) + 1)
	testkit.Until(t, "the audit is balanced", func() bool { return sale.audit(0).Balanced })
	sale.checkBalanced(0, codes, orders)
}

// Redis stops while only vouchers with a lock in MySQL are sold: the instance stays in the balancer and sells, also
// after the machine ids of Redis are over.
func TestReadyWhileMySQLLocks(t *testing.T) {
	t.Parallel()
	mariadb, redis := testkit.NewMariaDB(t), testkit.NewRedis(t)
	p := startProcess(t, servers{db: mariadb.Database(t), redis: []string{redis.Addr()}})
	sale := openSale(t, 100_000, `{"lock":"mysql-get-lock"}`, p)
	waitSold(t, p, flowMySQL)
	redis.Kill()
	testkit.Until(t, "the outage is seen", func() bool {
		_, flows := readyFlows(t, p)
		return slices.Contains(flows[flowRedis].Failing, "redis")
	})
	const leaseOfRedis = 10 * time.Second // idworker's default
	user := 0
	for end := time.Now().Add(leaseOfRedis + time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		user++
		if got := sale.buyUntilAnswered(0, user, "key-"+strconv.Itoa(user)); got.code != "created" {
			t.Fatalf("order %d, Redis stopped: %+v", user, got)
		}
		if status, flows := readyFlows(t, p); status != http.StatusOK || !flows[flowMySQL].Ready || flows[flowAdmission].Ready {
			t.Fatalf("Redis is stopped: %d %+v", status, flows)
		}
	}
	mariadb.Kill()
	testkit.Until(t, "not ready while both are stopped", func() bool { return !asksReady(t.Context(), p.url) })
	mariadb.Restart()
	testkit.Until(t, "ready with the database alone", func() bool { return asksReady(t.Context(), p.url) })
	redis.Restart()
	waitReady(t, p)
	if a := sale.audit(0); a.Orders != user || !a.Balanced {
		t.Errorf("%d were created, %+v", user, a)
	}
}

// Orders under a lock only, and the database stops: no voucher can be bought, and the instance leaves the balancer.
func TestNotReadyWhileLockedSalesStop(t *testing.T) {
	t.Parallel()
	mariadb, redis := testkit.NewMariaDB(t), testkit.NewRedis(t)
	p := startProcess(t, servers{db: mariadb.Database(t), redis: []string{redis.Addr()}})
	sale := openSale(t, 10, `{}`, p)
	waitSold(t, p, flowRedis)
	mariadb.Kill()
	testkit.Until(t, "not ready", func() bool { return !asksReady(t.Context(), p.url) })
	mariadb.Restart()
	testkit.Until(t, "ready again", func() bool { return asksReady(t.Context(), p.url) })
	if got := sale.buyUntilAnswered(0, 1, ""); got.code != "created" {
		t.Errorf("told %+v", got)
	}
}

// The check of ZooKeeper succeeds for a server that serves, and for an ensemble of which one does.
func TestZooKeeperIsAsked(t *testing.T) {
	t.Parallel()
	server, nobody := testkit.ZooKeeper(t).Addr(), testkit.FreeAddr(t)
	for name, test := range map[string]struct {
		addrs []string
		ok    bool
	}{"serves": {[]string{server}, true}, "one of two": {[]string{nobody, server}, true}, "nobody": {[]string{nobody}, false}} {
		if err := askZooKeeper(t.Context(), test.addrs); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
