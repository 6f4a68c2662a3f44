package faults

import (
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/service"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// A process is paused with orders in its hands, in the middle of a transaction, for longer than ClaimIdle, and resumed
// while another one is at work on the same orders: none is duplicated, and it continues. Then it is killed with orders in
// its hands, and started again under its name: it goes on with them. Orders that nobody has persisted yet are shown by
// each process.
func TestStoppedPastTheClaimAndWoken(t *testing.T) {
	t.Parallel()
	const stock = 60
	where := harness.NewStores(t).With("SECKILL_CLAIM_IDLE=1s")
	client := harness.RedisAt(t, where.Redis[0])
	a := harness.Start(t, where.With("SECKILL_INSTANCE=a"))
	sale := harness.OpenSale(t, stock, harness.AdmissionPolicy, a)
	release := sale.HoldRow(where.DB)
	codes, orders := sale.OrderAllUntilAnswered(20)
	if codes["accepted"] != 20 {
		t.Fatalf("%v", codes)
	}
	testkit.Until(t, "a has unacknowledged orders", func() bool { return unacknowledged(sale, client, "a") > 0 })
	a.Pause()
	// Otherwise the other process reads the rest before it claims, and is busy with it for as long as the row is locked.
	_ = client.XReadGroup(t.Context(), &redis.XReadGroupArgs{ // there may be none
		Group: ledger.Group, Consumer: "a-1", Streams: []string{sale.Keys().Orders, ">"}, Count: 1000, Block: -1,
	}).Err()
	b := harness.Start(t, where.With("SECKILL_INSTANCE=b"))
	sale.URLs = []string{b.URL}
	for order, user := range orders {
		if _, list := harness.Ask(t, b.URL+"/api/v1/orders", user); sale.Status(0, order, user, "") != "pending" || !strings.Contains(list, order) {
			t.Errorf("order %s of user %d is %q, and listed in %s", order, user, sale.Status(0, order, user, ""), list)
		}
	}
	// While the sleeper's transaction holds what b needs, b has orders of the sleeper in its hands too: those of the first
	// page that it claims, since it waits with them.
	testkit.Until(t, "b has claimed some of them", func() bool { return b.Metric(t, "seckill_fulfil_claimed_total") > 0 })
	release()
	a.Resume()
	waitForOrders(sale, 20)
	testkit.Until(t, "nothing is left to the one that was paused", func() bool { return unacknowledged(sale, client, "a") == 0 })

	release = sale.HoldRow(where.DB)
	sale.URLs = []string{a.URL}
	for user := 101; unacknowledged(sale, client, "a") == 0; user++ { // b takes one
		got := sale.BuyUntilAnswered(0, user, strconv.Itoa(user))
		if got.Code != "accepted" {
			t.Fatalf("told %+v", got)
		}
		orders[got.Order] = user
		testkit.Until(t, "a process has read it", func() bool {
			read, err := client.XPending(t.Context(), sale.Keys().Orders, ledger.Group).Result()
			return err == nil && read.Count == client.XLen(t.Context(), sale.Keys().Orders).Val()
		})
	}
	a.Kill()
	release()
	a = harness.Start(t, where.With("SECKILL_INSTANCE=a"))
	sale.URLs = []string{a.URL, b.URL}
	_, more := sale.OrderAllUnder("more-", 2*stock)
	maps.Copy(orders, more)
	sale.CheckAllConfirmed(stock, orders)
	if dead := client.XLen(t.Context(), sale.Keys().Dead).Val(); dead != 0 {
		t.Errorf("%d dead letters", dead)
	}
}

// unacknowledged counts the orders that a process has read and not acknowledged.
func unacknowledged(s *harness.Sale, client *redis.Client, instance string) int64 {
	s.T.Helper()
	p, err := client.XPending(s.T.Context(), s.Keys().Orders, ledger.Group).Result()
	if err != nil {
		s.T.Fatal(err)
	}
	return p.Consumers[instance+"-1"]
}

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
		if got.Code != "accepted" {
			t.Fatalf("told %+v", got)
		}
		orders[got.Order] = user
		_ = client.XReadGroup(t.Context(), &redis.XReadGroupArgs{ // it may find nothing
			Group: ledger.Group, Consumer: "ghost-" + sale.Voucher + "-1", Streams: []string{sale.Keys().Orders, ">"}, Block: -1,
		}).Err()
	}
	release()
	fail.NowIf(t, client.HSet(t.Context(), sale.Keys().Meta, ledger.FieldEpoch, 1).Err())
	if got := sale.Buy(0, 99, ""); got.Code != "unavailable" {
		t.Fatalf("told %+v", got)
	}
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
