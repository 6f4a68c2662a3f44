package faults

import (
	"maps"
	"sync"
	"testing"

	"seckill/internal/testkit"
	"seckill/test/harness"
)

// A sale under the default policy during which a process or a server dies.
func TestSaleSurvives(t *testing.T) {
	t.Parallel()
	const users, stock = 600, 400
	for _, tc := range []struct {
		name string
		back bool // the victim comes back
		kill func(t *testing.T, mariadb *testkit.SQLServer, redis *testkit.RedisServer, a harness.Process)
	}{
		{"SIGKILL of an API process", false, func(_ *testing.T, _ *testkit.SQLServer, _ *testkit.RedisServer, a harness.Process) { a.Kill() }},
		{"SIGKILL of Redis", true, func(_ *testing.T, _ *testkit.SQLServer, redis *testkit.RedisServer, _ harness.Process) {
			redis.Kill()
			redis.Restart()
		}},
		{"SIGKILL of MariaDB", true, func(_ *testing.T, mariadb *testkit.SQLServer, _ *testkit.RedisServer, _ harness.Process) {
			mariadb.Kill()
			mariadb.Restart()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			mariadb, redis := testkit.NewMariaDB(t, "--innodb-flush-log-at-trx-commit=1"), testkit.NewRedis(t)
			s := harness.Stores{DB: mariadb.Database(t), Redis: []string{redis.Addr()}}
			a, b := harness.Start(t, s), harness.Start(t, s)
			sale := harness.OpenSale(t, stock, `{}`, a, b)
			// The test's own goroutine does the killing, once a third was answered.
			now := make(chan struct{})
			once := sync.OnceFunc(func() { close(now) })
			var codes, orders map[string]int
			var load sync.WaitGroup
			load.Go(func() {
				codes, orders = sale.OrderAll(users, 1, func(answered int) {
					if answered >= users/3 {
						once()
					}
				})
			})
			<-now
			tc.kill(t, mariadb, redis, a)
			load.Wait()
			sale.CheckBalanced(1, codes, orders)
			if codes["internal"] > 0 || codes[""] > 0 {
				t.Errorf("answers without a reason: %v", codes)
			}
			if !tc.back {
				return
			}
			// Afterwards the sale goes on until all is sold.
			harness.WaitReady(t, a, b)
			more, moreOrders := sale.OrderAll(2*users, 1, nil)
			maps.Copy(orders, moreOrders)
			if got := sale.Audit(0); got.Orders != stock {
				t.Errorf("%d of %d sold: %v", got.Orders, stock, more)
			}
			sale.CheckBalanced(0, more, orders)
		})
	}
}

// The process dies after the commit and before the reply. The repetition, to another process, returns the one order.
func TestRepetitionAfterADeathGetsTheOneAnswer(t *testing.T) {
	t.Parallel()
	s := harness.NewStores(t)
	a, b := harness.Start(t, s), harness.Start(t, s)
	sale := harness.OpenSale(t, 10, `{"faults":[{"point":"after-commit","effect":"kill"}]}`, a, b)
	if got := sale.Buy(0, 42, "once-only"); got.Code != "network" {
		t.Fatalf("the process that should have died answered %+v", got)
	}
	<-a.Done()
	got := sale.BuyUntilAnswered(1, 42, "once-only") // until then the reservation is still the dead process's
	if got.Code != "created" {
		t.Fatalf("the repetition was told %+v", got)
	}
	if again := sale.BuyUntilAnswered(1, 42, "once-only"); again != got {
		t.Errorf("told %+v, then %+v", got, again)
	}
	if a := sale.Audit(1); a.Orders != 1 || !a.Balanced {
		t.Errorf("%+v", a)
	}
}

// SIGTERM during orders: the running ones are finished and answered.
func TestGracefulStopFinishesOrders(t *testing.T) {
	t.Parallel()
	s := harness.NewStores(t)
	a, b := harness.Start(t, s), harness.Start(t, s)
	sale := harness.OpenSale(t, 100, `{"faults":[{"point":"critical-section","pause_ms":4000}]}`, a)
	answers := make(chan harness.Outcome)
	for user := range 20 {
		go func() { answers <- sale.Buy(0, user+1, "") }()
	}
	b.WaitHTTP(t, b.URL+"/readyz?strict=1")
	harness.WaitInFlight(t, a, 20)
	a.Terminate()
	for range 20 {
		if got := <-answers; got.Code != "created" {
			t.Errorf("an order under way was told %+v", got)
		}
	}
	<-a.Done()
	if err := a.Wait(); err != nil {
		t.Errorf("the process ended with %v", err)
	}
	sale.URLs = []string{b.URL}
	if got := sale.Audit(0); got.Orders != 20 || !got.Balanced {
		t.Errorf("%+v", got)
	}
}
