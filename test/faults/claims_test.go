package faults

import (
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/service"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// The process that reopens a voucher dies while it waits for orders in flight, which a third process has read that dies
// too. Another process opens the voucher soon, although ClaimIdle is its default of 30 s.
func TestSoakProcessThatReopensDies(t *testing.T) {
	testkit.Soak(t)
	figures := harness.NewFigures(t)
	for n := range 20 {
		t.Run(strconv.Itoa(n), func(t *testing.T) { openerDies(t, figures) })
	}
}

func openerDies(t *testing.T, figures *harness.Figures) {
	t.Helper()
	where := harness.NewStores(t)
	client := harness.RedisAt(t, where.Redis[0])
	a, b := harness.Start(t, where), harness.Start(t, where)
	sale := harness.OpenSale(t, 100, harness.AdmissionPolicy, a)
	release := sale.HoldRow(where.DB)
	_, orders := sale.OrderAllUntilAnswered(20)
	alive := service.KeyPrefix + "fulfil:alive:ghost-" + sale.Voucher
	fail.NowIf(t, client.Set(t.Context(), alive, 1, time.Hour).Err())
	// The workers are held up with what they have; the rest goes to the third process.
	for user := 21; client.XPending(t.Context(), sale.Keys().Orders, ledger.Group).Val().Consumers["ghost-"+sale.Voucher+"-1"] == 0; user++ {
		got := sale.BuyUntilAnswered(0, user, "key-"+strconv.Itoa(user))
		fail.NowUnequal(t, got.Code, "accepted")
		orders[got.Order] = user
		_ = client.XReadGroup(t.Context(), &redis.XReadGroupArgs{ // it may find nothing
			Group: ledger.Group, Consumer: "ghost-" + sale.Voucher + "-1", Streams: []string{sale.Keys().Orders, ">"}, Block: -1,
		}).Err()
	}
	release()
	fail.NowIf(t, client.HSet(t.Context(), sale.Keys().Meta, ledger.FieldEpoch, 1).Err())
	fail.NowUnequal(t, sale.Buy(0, 99, "").Code, "unavailable")
	a.WaitLine(t, "admission waits for pending orders")
	a.Kill()
	killed := time.Now()
	client.Del(t.Context(), alive)
	sale.URLs = []string{b.URL}
	testkit.Until(t, "an order is accepted", func() bool {
		got := sale.Buy(0, 99, "key-99")
		if got.Order != "" {
			orders[got.Order] = 99
		}
		return got.Order != ""
	})
	figures.Took("on sale again after the death of the process that reopened", time.Since(killed), 3*time.Second)
	_, more := sale.OrderAllUnder("more-", 200)
	maps.Copy(orders, more)
	sale.CheckAllConfirmed(100, orders)
}
