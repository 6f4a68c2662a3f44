package sale

import (
	"strconv"
	"testing"

	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

func TestAdmissionOverTwoProcesses(t *testing.T) {
	t.Parallel()
	const users, stock = 800, 200
	s := harness.NewStores(t)
	a, b := harness.Start(t, s), harness.Start(t, s)
	sale := harness.OpenSale(t, stock, harness.AdmissionPolicy, a, b)
	codes, orders := sale.OrderAllBy(func(i, user int) harness.Outcome { // each of them twice, under two keys
		return sale.BuyUntilAnswered(i, user, "request-"+strconv.Itoa(i))
	}, users, 2, nil)
	if len(orders) != stock || codes["accepted"] != stock || codes["sold_out"]+codes["already_ordered"] != 2*users-stock {
		t.Errorf("%v", codes)
	}
	sale.CheckAllConfirmed(stock, orders)

	t.Run("a waiting buyer is told by any process", func(t *testing.T) {
		sale := harness.OpenSale(t, 10, harness.AdmissionPolicy, a, b)
		for user := 1; user <= 10; user++ {
			got := sale.BuyUntilAnswered(user, user, "once")
			fail.NowUnequal(t, got.Code, "accepted")
			fail.Unequal(t, sale.Status((user+1)%2, got.Order, user, "?wait=20s"), "confirmed", "order %s", got.Order)
			if again := sale.BuyUntilAnswered(user+1, user, "once"); !harness.SameOrder(again, got) {
				t.Errorf("told %+v, then %+v", got, again)
			}
		}
	})
}
