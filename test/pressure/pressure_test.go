package pressure

import (
	"maps"
	"strconv"
	"testing"

	"seckill/internal/admission/ledger"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// The database stands still while buyers keep ordering. As many orders are accepted as may be pending in Redis, and all
// others are answered with unavailable. When the database is back, every accepted order is confirmed, and the sale
// continues.
func TestBackpressure(t *testing.T) {
	t.Parallel()
	const stock, pending = 300, 60
	mariadb, server := testkit.NewMariaDB(t), testkit.NewRedis(t)
	where := harness.Stores{DB: mariadb.Database(t), Redis: []string{server.Addr()}}.With("SECKILL_MAX_PENDING=" + strconv.Itoa(pending))
	a, b := harness.Start(t, where), harness.Start(t, where)
	sale := harness.OpenSale(t, stock, harness.AdmissionPolicy, a, b)
	orders := map[string]int{}
	for i, user := range []int{1001, 1002} { // both processes know the voucher from here on
		orders[sale.BuyUntilAnswered(i, user, "first").Order] = user
	}
	sale.AtRest(0)

	mariadb.Pause()
	codes, accepted := sale.OrderAll(2*stock, 1, nil)
	if codes["accepted"] != pending || codes["unavailable"] != 2*stock-pending {
		t.Errorf("while nothing can be persisted, buyers are told %v; want %d accepted", codes, pending)
	}
	fail.Unequal(t, ledger.New(server.Client(t), ledger.Options{}).State(t.Context(), sale.Keys()).Pending, pending, "orders are on their way")
	mariadb.Resume()

	maps.Copy(orders, accepted)
	_, more := sale.OrderAllUntilAnswered(2 * stock) // some of them have an order already
	maps.Copy(orders, more)
	sale.CheckAllConfirmed(stock, orders)
}
