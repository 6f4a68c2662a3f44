package sale

import (
	"fmt"
	"strings"
	"testing"

	"seckill/internal/lock"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
	"seckill/test/harness"
)

// Two processes sell under every way to take from the stock that needs no lock, outside lab mode.
func TestEveryStockSellsWithoutALock(t *testing.T) {
	t.Parallel()
	for _, server := range []testkit.Database{testkit.MariaDB(t), testkit.MySQL(t)} {
		s := harness.Stores{DB: server, Redis: []string{testkit.NewRedis(t).Addr()}}
		a, b := harness.Start(t, s), harness.Start(t, s)
		for _, stock := range []voucher.Stock{voucher.StockConditional, voucher.StockRows, voucher.StockUnits, voucher.StockGrouped} {
			t.Run(server.Engine+" "+string(stock), func(t *testing.T) {
				sale := harness.OpenSale(t, 100, fmt.Sprintf(`{"lock":"none","stock":%q}`, stock), a, b)
				codes, orders := sale.OrderAll(150, 2, nil)
				sale.CheckBalanced(0, codes, orders)
				if sold := sale.Audit(0).Orders; sold != 100 || codes["created"] != 100 || codes["sold_out"]+codes["already_ordered"] != 200 {
					t.Errorf("%d of 100 units were sold; 150 buyers with two requests each were told %v", sold, codes)
				}
			})
		}
	}
}

// Every mechanism that the project knows by name is wired to its servers. Two processes sell a voucher under it in lab
// mode; the safe ones lock the whole voucher and wait for the lock. A mechanism that is in the catalogue and wired
// nowhere fails here.
func TestEveryLockSells(t *testing.T) {
	t.Parallel()
	var nodes []string
	for range 3 {
		nodes = append(nodes, testkit.NewRedis(t).Addr())
	}
	// Valkey has the commands of native, and its replica acknowledges what waited writes.
	primary, replica := testkit.NewValkey(t), testkit.NewValkey(t)
	replica.ReplicaOf(primary.Addr())
	s := harness.Stores{DB: testkit.MariaDB(t), Redis: []string{primary.Addr()}}.With(
		"SECKILL_LOCK_REDIS_ADDRS="+strings.Join(nodes, ","),
		"SECKILL_ZOOKEEPER_ADDRS="+testkit.ZooKeeper(t).Addr(),
	)
	a, b := harness.Start(t, s), harness.Start(t, s)
	for _, m := range lock.Catalogue() {
		t.Run(m.Name, func(t *testing.T) {
			policy := fmt.Sprintf(`{"lock":%q}`, m.Name)
			if m.Safe {
				policy = fmt.Sprintf(`{"lock":%q,"scope":"voucher","lock_wait_ms":20000}`, m.Name)
			}
			// A process connects to ZooKeeper with its first order. On a busy machine that takes longer than an order
			// may.
			first := harness.OpenSale(t, 2, policy, a, b)
			for i := range 2 {
				fail.Unequal(t, first.BuyUntilAnswered(i, 1+i, "").Code, "created", "the first order of process %d", i)
			}
			sale := harness.OpenSale(t, 10, policy, a, b)
			codes, orders := sale.OrderAll(20, 1, nil)
			sale.CheckBalanced(0, codes, orders)
			if codes["created"] == 0 {
				t.Errorf("no order succeeded: %v", codes)
			}
			if !m.Safe {
				return
			}
			// Where several nodes vote, a slow one can make the lock unavailable. Those buyers ask again.
			testkit.Until(t, "an answer for all", func() bool {
				if codes["unavailable"] == 0 {
					return true
				}
				codes, _ = sale.OrderAll(20, 1, nil)
				return false
			})
			sold := sale.Audit(0).Orders
			if told := codes["created"] + codes["sold_out"] + codes["already_ordered"]; sold != 10 || told != 20 {
				t.Errorf("%d of 10 units were sold; 20 buyers were told %v", sold, codes)
			}
		})
	}
}
