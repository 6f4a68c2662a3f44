package faults

import (
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/test/harness"
)

// A sale by admission during which a process or a server dies.
func TestAdmissionSurvives(t *testing.T) {
	t.Parallel()
	const users, stock, pace = 1500, 1000, 40 * time.Millisecond
	for _, tc := range []struct {
		name string
		lost bool // orders that were accepted may be forgotten
		kill func(t *testing.T, mariadb *testkit.SQLServer, server *testkit.RedisServer, a harness.Process)
	}{
		{"SIGKILL of an API process", false, func(_ *testing.T, _ *testkit.SQLServer, _ *testkit.RedisServer, a harness.Process) { a.Kill() }},
		{"SIGTERM of an API process", false, func(_ *testing.T, _ *testkit.SQLServer, _ *testkit.RedisServer, a harness.Process) { a.Terminate() }},
		{"SIGKILL of MariaDB", false, func(_ *testing.T, mariadb *testkit.SQLServer, _ *testkit.RedisServer, _ harness.Process) {
			mariadb.Kill()
			mariadb.Restart()
		}},
		{"SIGKILL of Redis", false, func(_ *testing.T, _ *testkit.SQLServer, server *testkit.RedisServer, _ harness.Process) {
			server.Kill()
			server.Restart()
		}},
		{"Redis emptied", true, func(t *testing.T, _ *testkit.SQLServer, server *testkit.RedisServer, _ harness.Process) {
			if err := server.Client(t).FlushAll(t.Context()).Err(); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			mariadb, server := testkit.NewMariaDB(t, "--innodb-flush-log-at-trx-commit=1"), testkit.NewRedis(t, "--appendonly", "yes", "--appendfsync", "always")
			s := harness.Stores{DB: mariadb.Database(t), Redis: []string{server.Addr()}}
			a, b := harness.Start(t, s), harness.Start(t, s)
			sale := harness.OpenSale(t, stock, harness.AdmissionPolicy, b, a)
			// The buyers come at a pace at which orders are accepted and persisted at the
			// same time, and the kill falls into that: some are in the database, some on
			// their way, some still to be sold.
			var codes, orders map[string]int
			var answered atomic.Int64
			var load sync.WaitGroup
			load.Go(func() {
				codes, orders = sale.OrderAll(users, 1, func(n int) {
					answered.Store(int64(n))
					time.Sleep(pace)
				})
			})
			var before harness.Audit
			testkit.Until(t, "a tenth is sold", func() bool {
				before = sale.Audit(0)
				return before.Orders >= stock/10
			})
			tc.kill(t, mariadb, server, a)
			after := int(answered.Load())
			load.Wait()
			t.Logf("killed with %+v; %d answered when it was done", before, after)
			if before.Stock == 0 {
				t.Error("all was sold before the kill: it proves nothing")
			}
			t.Log(codes)
			if codes["internal"] > 0 || codes[""] > 0 {
				t.Errorf("answers without a reason: %v", codes)
			}
			// The sale goes on until all is sold.
			sale.URLs = sale.URLs[:1]
			harness.WaitReady(t, b)
			deadline := time.Now().Add(harness.Patience)
			for sale.AtRest(0).Stock > 0 && time.Now().Before(deadline) {
				_, more := sale.OrderAll(2*users, 1, nil)
				maps.Copy(orders, more)
			}
			lost := sale.CheckSoldOut(0, stock, orders)
			switch {
			case !tc.lost && lost > 0:
				t.Errorf("%d accepted orders were lost", lost)
			case lost > after-before.Orders+harness.Connections:
				t.Errorf("%d accepted orders were lost, more than were on their way", lost)
			}
		})
	}
}

// The only process is stopped while orders are in flight. The next start persists them.
func TestAdmissionOutlivesItsProcesses(t *testing.T) {
	t.Parallel()
	const stock = 300
	s := harness.NewStores(t)
	a := harness.Start(t, s)
	sale := harness.OpenSale(t, stock, harness.AdmissionPolicy, a)
	_, orders := sale.OrderAllUntilAnswered(stock)
	a.Terminate()
	<-a.Done()
	if err := a.Wait(); err != nil {
		t.Errorf("the process ended with %v", err)
	}
	sale.URLs = []string{harness.Start(t, s).URL}
	sale.CheckAllConfirmed(stock, orders)
}
