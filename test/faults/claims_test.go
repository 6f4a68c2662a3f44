package faults

import (
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/service"
	"seckill/internal/testkit"
	"seckill/test/harness"
)

// unacknowledged counts the orders that a process has read and not acknowledged.
func unacknowledged(s *harness.Sale, client *redis.Client, instance string) int64 {
	s.T.Helper()
	p, err := client.XPending(s.T.Context(), s.Keys().Orders, ledger.Group).Result()
	if err != nil {
		s.T.Fatal(err)
	}
	return p.Consumers[instance+"-1"]
}

// counter reads a metric of a process.
func counter(t *testing.T, p harness.Process, name string) float64 {
	t.Helper()
	_, body := harness.Call(t, http.MethodGet, p.URL+"/metrics", nil, "")
	_, text, found := strings.Cut(body, "\n"+name+" ")
	text, _, _ = strings.Cut(text, "\n")
	n, err := strconv.ParseFloat(text, 64)
	if !found || err != nil {
		t.Fatalf("no %s: %v", name, err)
	}
	return n
}

// stuckSale is a sale in which a process has read orders that it cannot persist.
type stuckSale struct {
	*harness.Sale
	where   harness.Stores
	client  *redis.Client
	a       harness.Process
	stock   int
	orders  map[string]int
	release func()
}

func openStuckSale(t *testing.T, where harness.Stores) *stuckSale {
	t.Helper()
	h := &stuckSale{where: where, stock: 40, client: harness.RedisAt(t, where.Redis[0])}
	h.a = harness.Start(t, where.With("SECKILL_INSTANCE=a"))
	h.Sale = harness.OpenSale(t, h.stock, harness.AdmissionPolicy, h.a)
	h.release = h.HoldRow(where.DB)
	var codes map[string]int
	if codes, h.orders = h.OrderAllUntilAnswered(h.stock / 2); codes["accepted"] != h.stock/2 {
		t.Fatalf("%v", codes)
	}
	testkit.Until(t, "a has unacknowledged orders", func() bool { return unacknowledged(h.Sale, h.client, "a") > 0 })
	return h
}

// readRest reads the remaining entries in the name of a paused process. Otherwise another process could read
// them before it claims entries, and would be busy with them for as long as the row is locked.
func (h *stuckSale) readRest(instance string) {
	h.T.Helper()
	err := h.client.XReadGroup(h.T.Context(), &redis.XReadGroupArgs{
		Group: ledger.Group, Consumer: instance + "-1", Streams: []string{h.Keys().Orders, ">"}, Count: 1000, Block: -1,
	}).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		h.T.Fatal(err)
	}
}

// sellRest sells the rest through another process, and checks everything there.
func (h *stuckSale) sellRest(p harness.Process) {
	h.T.Helper()
	h.URLs = []string{p.URL}
	codes, more := h.OrderAllUnder("rest-", h.stock) // also from users who already have one
	maps.Copy(h.orders, more)
	// After the last one is sold, the gate answers sold_out from memory, also to buyers who have an order.
	if codes["accepted"] != h.stock/2 || codes["already_ordered"]+codes["sold_out"] != h.stock/2 {
		h.T.Errorf("%v", codes)
	}
	h.CheckAllConfirmed(h.stock, h.orders)
	if dead := h.client.XLen(h.T.Context(), h.Keys().Dead).Val(); dead != 0 {
		h.T.Errorf("%d dead letters", dead)
	}
}

// A process dies with unacknowledged orders and is never started again. Another one claims them after ClaimIdle.
func TestEntriesOfADeadProcessAreClaimed(t *testing.T) {
	t.Parallel()
	h := openStuckSale(t, harness.NewStores(t).With("SECKILL_CLAIM_IDLE=2s"))
	b := harness.Start(t, h.where.With("SECKILL_INSTANCE=b"))
	held := unacknowledged(h.Sale, h.client, "a")
	h.a.Kill()
	<-h.a.Done()
	killed := time.Now()
	h.release()
	h.sellRest(b)
	took := time.Since(killed)
	claimed := counter(t, b, "seckill_fulfil_claimed_total")
	if claimed < float64(held) {
		t.Errorf("%v claimed of %d", claimed, held)
	}
	if took > 20*time.Second { // less than the default
		t.Errorf("it took %v", took)
	}
	t.Logf("%d unacknowledged by the dead process, %v claimed; confirmed %v after its death", held, claimed, took.Round(10*time.Millisecond))
}

// A process with unacknowledged orders is paused for longer than ClaimIdle, and resumed in the middle of its
// work: no order is duplicated, and the process continues.
func TestStoppedPastTheClaimAndWoken(t *testing.T) {
	t.Parallel()
	h := openStuckSale(t, harness.NewStores(t).With("SECKILL_CLAIM_IDLE=1s"))
	h.a.Pause()
	h.readRest("a")
	b := harness.Start(t, h.where.With("SECKILL_INSTANCE=b"))
	// While the sleeper's transaction holds what b needs, b has orders of the sleeper in its
	// hands too: those of the first page that it claims, since it waits with them.
	testkit.Until(t, "b has taken some of them over", func() bool { return counter(t, b, "seckill_fulfil_claimed_total") > 0 })
	h.release()
	h.a.Resume()
	h.sellRest(b)
	if left := unacknowledged(h.Sale, h.client, "a"); left != 0 {
		t.Errorf("the paused process still has %d unacknowledged", left)
	}
	// It has lost nothing but time.
	after := harness.OpenSale(t, 20, harness.AdmissionPolicy, h.a)
	_, orders := after.OrderAllUntilAnswered(20)
	after.CheckAllConfirmed(20, orders)
}

// A process that keeps its name over a restart continues at once with its unacknowledged orders, whatever
// ClaimIdle is.
func TestInstanceGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	h := openStuckSale(t, harness.NewStores(t).With("SECKILL_CLAIM_IDLE=1h"))
	held := unacknowledged(h.Sale, h.client, "a")
	h.a.Kill()
	<-h.a.Done()
	h.release()
	again := harness.Start(t, h.where.With("SECKILL_INSTANCE=a"))
	h.sellRest(again)
	if claimed := counter(t, again, "seckill_fulfil_claimed_total"); claimed != 0 {
		t.Errorf("%v claimed", claimed)
	}
	t.Logf("%d unacknowledged", held)
}

// The process that reopens a voucher dies while it waits for orders in flight, which a third process has read
// that dies too. Another process opens the voucher soon, although ClaimIdle is its default of 30 s.
func TestProcessThatReopensDies(t *testing.T) {
	t.Parallel()
	openerDies(t, harness.BusyReopenLimit)
}

func TestSoakProcessThatReopensDies(t *testing.T) {
	testkit.Soak(t)
	for range 20 {
		openerDies(t, harness.ReopenLimit)
	}
}

func openerDies(t *testing.T, limit time.Duration) {
	t.Helper()
	where := harness.NewStores(t)
	client := harness.RedisAt(t, where.Redis[0])
	a, b := harness.Start(t, where), harness.Start(t, where)
	sale := harness.OpenSale(t, 100, harness.AdmissionPolicy, a)
	release := sale.HoldRow(where.DB)
	_, orders := sale.OrderAllUntilAnswered(20)
	alive := service.KeyPrefix + "fulfil:alive:ghost-" + sale.Voucher
	if err := client.Set(t.Context(), alive, 1, time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
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
	if err := client.HSet(t.Context(), sale.Keys().Meta, ledger.FieldEpoch, 1).Err(); err != nil {
		t.Fatal(err)
	}
	if got := sale.Buy(0, 99, ""); got.Code != "unavailable" {
		t.Fatalf("told %+v", got)
	}
	a.WaitLine(t, "admission waits for pending orders")
	a.Kill()
	<-a.Done()
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
	took := time.Since(killed)
	if took > limit {
		t.Errorf("on sale again %v after the death, want %v", took, limit)
	}
	_, more := sale.OrderAllUnder("more-", 200)
	maps.Copy(orders, more)
	sale.CheckAllConfirmed(100, orders)
	t.Logf("on sale again %v after the death", took.Round(time.Millisecond))
}

// The process dies after Redis has accepted the order and before anybody is told: all replies of Redis are lost,
// and then the process dies. The buyer repeats the request at another process and gets the one order, with the
// id that the dead process gave it.
func TestRepetitionAfterALostAdmission(t *testing.T) {
	t.Parallel()
	db, server := testkit.MariaDB(t), testkit.NewRedis(t)
	line := testkit.NewProxy(t, server.Addr())
	a := harness.Start(t, harness.Stores{DB: db, Redis: []string{line.Addr()}}.With("SECKILL_INSTANCE=a"))
	b := harness.Start(t, harness.Stores{DB: db, Redis: []string{server.Addr()}}.With("SECKILL_INSTANCE=b", "SECKILL_CLAIM_IDLE=1s"))
	sale := harness.OpenSale(t, 10, harness.AdmissionPolicy, a, b)
	if got := sale.BuyUntilAnswered(0, 1, "first"); got.Code != "accepted" {
		t.Fatalf("told %+v", got)
	}
	// Process a needs an idle connection for the order: a new one would wait for a reply first,
	// and others use connections too.
	var warm sync.WaitGroup
	for range 8 {
		other := harness.OpenSale(t, 1, harness.AdmissionPolicy, a)
		warm.Go(func() { other.Buy(0, 1, "") })
	}
	warm.Wait()
	client := server.Client(t)
	line.BlackholeReplies()
	told := make(chan harness.Outcome)
	go func() { told <- sale.Buy(0, 42, "once-only") }()
	var admitted string
	testkit.Until(t, "Redis has accepted the order", func() bool {
		reserved := client.HGet(t.Context(), sale.Keys().Users, "42").Val()
		admitted, _, _ = strings.Cut(reserved, ":") // without the key
		return admitted != ""
	})
	a.Kill()
	<-a.Done()
	if got := <-told; got.Code != "network" {
		t.Fatalf("the process that died answered %+v", got)
	}
	got := sale.BuyUntilAnswered(1, 42, "once-only")
	if got.Code != "accepted" || got.Order != admitted {
		t.Fatalf("the repetition was told %+v, Redis has %s", got, admitted)
	}
	if again := sale.BuyUntilAnswered(1, 42, "once-only"); again.Order != admitted {
		t.Errorf("told %+v, then %+v", got, again)
	}
	sale.URLs = []string{b.URL}
	if other := sale.BuyUntilAnswered(0, 42, ""); other.Code != "already_ordered" {
		t.Errorf("without the key: %+v", other)
	}
	if now := sale.AtRest(0); now.Orders != 2 || !now.Balanced {
		t.Errorf("%+v", now)
	}
	if status := sale.Status(0, admitted, 42, ""); status != "confirmed" {
		t.Errorf("the order is %q", status)
	}
	t.Logf("order %s, repetition told %q", admitted, got.Code)
}
