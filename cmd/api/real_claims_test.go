package main

import (
	"database/sql"
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
	"seckill/internal/testkit"
)

// holdRow locks the voucher's row, so that no order is persisted until release is called.
func (s *testSale) holdRow(where testkit.Database) (release func()) {
	s.t.Helper()
	db, err := sql.Open("mysql", where.DSN)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = db.Close() })
	tx, err := db.BeginTx(s.t.Context(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := tx.ExecContext(s.t.Context(), "SELECT id FROM vouchers WHERE id = ? FOR UPDATE", s.voucher); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(); err != nil {
			s.t.Error(err)
		}
	}
}

// unacknowledged counts the orders that a process has read and not acknowledged.
func (s *testSale) unacknowledged(client *redis.Client, instance string) int64 {
	s.t.Helper()
	p, err := client.XPending(s.t.Context(), s.keys().Orders, ledger.Group).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	return p.Consumers[instance+"-1"]
}

// counter reads a metric of a process.
func counter(t *testing.T, p process, name string) float64 {
	t.Helper()
	_, body := call(t, http.MethodGet, p.url+"/metrics", nil, "")
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
	*testSale
	where   servers
	client  *redis.Client
	a       process
	stock   int
	orders  map[string]int
	release func()
}

func openStuckSale(t *testing.T, where servers) *stuckSale {
	t.Helper()
	h := &stuckSale{where: where, stock: 40, client: redisAt(t, where.redis[0])}
	h.a = startProcess(t, where.with("SECKILL_INSTANCE=a"))
	h.testSale = openSale(t, h.stock, admissionPolicy, h.a)
	h.release = h.holdRow(where.db)
	var codes map[string]int
	if codes, h.orders = h.orderAllUntilAnswered(h.stock / 2); codes["accepted"] != h.stock/2 {
		t.Fatalf("%v", codes)
	}
	testkit.Until(t, "a has unacknowledged orders", func() bool { return h.unacknowledged(h.client, "a") > 0 })
	return h
}

// readRest reads the remaining entries in the name of a paused process. Otherwise another process could read
// them before it claims entries, and would be busy with them for as long as the row is locked.
func (h *stuckSale) readRest(instance string) {
	h.t.Helper()
	err := h.client.XReadGroup(h.t.Context(), &redis.XReadGroupArgs{
		Group: ledger.Group, Consumer: instance + "-1", Streams: []string{h.keys().Orders, ">"}, Count: 1000, Block: -1,
	}).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		h.t.Fatal(err)
	}
}

// sellRest sells the rest through another process, and checks everything there.
func (h *stuckSale) sellRest(p process) {
	h.t.Helper()
	h.urls = []string{p.url}
	codes, more := h.orderAllUnder("rest-", h.stock) // also from users who already have one
	maps.Copy(h.orders, more)
	// After the last one is sold, the gate answers sold_out from memory, also to buyers who have an order.
	if codes["accepted"] != h.stock/2 || codes["already_ordered"]+codes["sold_out"] != h.stock/2 {
		h.t.Errorf("%v", codes)
	}
	h.checkAllConfirmed(h.stock, h.orders)
	if dead := h.client.XLen(h.t.Context(), h.keys().Dead).Val(); dead != 0 {
		h.t.Errorf("%d dead letters", dead)
	}
}

// A process dies with unacknowledged orders and is never started again. Another one claims them after ClaimIdle.
func TestEntriesOfADeadProcessAreClaimed(t *testing.T) {
	t.Parallel()
	h := openStuckSale(t, sharedServers(t).with("SECKILL_CLAIM_IDLE=2s"))
	b := startProcess(t, h.where.with("SECKILL_INSTANCE=b"))
	held := h.unacknowledged(h.client, "a")
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
	h := openStuckSale(t, sharedServers(t).with("SECKILL_CLAIM_IDLE=1s"))
	h.a.Pause()
	h.readRest("a")
	b := startProcess(t, h.where.with("SECKILL_INSTANCE=b"))
	// While the sleeper's transaction holds what b needs, b has orders of the sleeper in its
	// hands too: those of the first page that it claims, since it waits with them.
	testkit.Until(t, "b has taken some of them over", func() bool { return counter(t, b, "seckill_fulfil_claimed_total") > 0 })
	h.release()
	h.a.Resume()
	h.sellRest(b)
	if left := h.unacknowledged(h.client, "a"); left != 0 {
		t.Errorf("the paused process still has %d unacknowledged", left)
	}
	// It has lost nothing but time.
	after := openSale(t, 20, admissionPolicy, h.a)
	_, orders := after.orderAllUntilAnswered(20)
	after.checkAllConfirmed(20, orders)
}

// A process that keeps its name over a restart continues at once with its unacknowledged orders, whatever
// ClaimIdle is.
func TestInstanceGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	h := openStuckSale(t, sharedServers(t).with("SECKILL_CLAIM_IDLE=1h"))
	held := h.unacknowledged(h.client, "a")
	h.a.Kill()
	<-h.a.Done()
	h.release()
	again := startProcess(t, h.where.with("SECKILL_INSTANCE=a"))
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
	openerDies(t, busyReopenLimit)
}

func TestSoakProcessThatReopensDies(t *testing.T) {
	testkit.Soak(t)
	for range 20 {
		openerDies(t, reopenLimit)
	}
}

func openerDies(t *testing.T, limit time.Duration) {
	t.Helper()
	where := sharedServers(t)
	client := redisAt(t, where.redis[0])
	a, b := startProcess(t, where), startProcess(t, where)
	sale := openSale(t, 100, admissionPolicy, a)
	release := sale.holdRow(where.db)
	_, orders := sale.orderAllUntilAnswered(20)
	alive := keyPrefix + "fulfil:alive:ghost-" + sale.voucher
	if err := client.Set(t.Context(), alive, 1, time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	// The workers are held up with what they have; the rest goes to the third process.
	for user := 21; client.XPending(t.Context(), sale.keys().Orders, ledger.Group).Val().Consumers["ghost-"+sale.voucher+"-1"] == 0; user++ {
		got := sale.buyUntilAnswered(0, user, "key-"+strconv.Itoa(user))
		if got.code != "accepted" {
			t.Fatalf("told %+v", got)
		}
		orders[got.order] = user
		_ = client.XReadGroup(t.Context(), &redis.XReadGroupArgs{ // it may find nothing
			Group: ledger.Group, Consumer: "ghost-" + sale.voucher + "-1", Streams: []string{sale.keys().Orders, ">"}, Block: -1,
		}).Err()
	}
	release()
	if err := client.HSet(t.Context(), sale.keys().Meta, ledger.FieldEpoch, 1).Err(); err != nil {
		t.Fatal(err)
	}
	if got := sale.buy(0, 99, ""); got.code != "unavailable" {
		t.Fatalf("told %+v", got)
	}
	a.WaitLine(t, "admission waits for pending orders")
	a.Kill()
	<-a.Done()
	killed := time.Now()
	client.Del(t.Context(), alive)
	sale.urls = []string{b.url}
	testkit.Until(t, "an order is accepted", func() bool {
		got := sale.buy(0, 99, "key-99")
		if got.order != "" {
			orders[got.order] = 99
		}
		return got.order != ""
	})
	took := time.Since(killed)
	if took > limit {
		t.Errorf("on sale again %v after the death, want %v", took, limit)
	}
	_, more := sale.orderAllUnder("more-", 200)
	maps.Copy(orders, more)
	sale.checkAllConfirmed(100, orders)
	t.Logf("on sale again %v after the death", took.Round(time.Millisecond))
}

// The process dies after Redis has accepted the order and before anybody is told: all replies of Redis are lost,
// and then the process dies. The buyer repeats the request at another process and gets the one order, with the
// id that the dead process gave it.
func TestRepetitionAfterALostAdmission(t *testing.T) {
	t.Parallel()
	db, server := testkit.MariaDB(t), testkit.NewRedis(t)
	line := testkit.NewProxy(t, server.Addr())
	a := startProcess(t, servers{db: db, redis: []string{line.Addr()}}.with("SECKILL_INSTANCE=a"))
	b := startProcess(t, servers{db: db, redis: []string{server.Addr()}}.with("SECKILL_INSTANCE=b", "SECKILL_CLAIM_IDLE=1s"))
	sale := openSale(t, 10, admissionPolicy, a, b)
	if got := sale.buyUntilAnswered(0, 1, "first"); got.code != "accepted" {
		t.Fatalf("told %+v", got)
	}
	// Process a needs an idle connection for the order: a new one would wait for a reply first,
	// and others use connections too.
	var warm sync.WaitGroup
	for range 8 {
		other := openSale(t, 1, admissionPolicy, a)
		warm.Go(func() { other.buy(0, 1, "") })
	}
	warm.Wait()
	client := server.Client(t)
	line.BlackholeReplies()
	told := make(chan outcome)
	go func() { told <- sale.buy(0, 42, "once-only") }()
	var admitted string
	testkit.Until(t, "Redis has accepted the order", func() bool {
		reserved := client.HGet(t.Context(), sale.keys().Users, "42").Val()
		admitted, _, _ = strings.Cut(reserved, ":") // without the key
		return admitted != ""
	})
	a.Kill()
	<-a.Done()
	if got := <-told; got.code != "network" {
		t.Fatalf("the process that died answered %+v", got)
	}
	got := sale.buyUntilAnswered(1, 42, "once-only")
	if got.code != "accepted" || got.order != admitted {
		t.Fatalf("the repetition was told %+v, Redis has %s", got, admitted)
	}
	if again := sale.buyUntilAnswered(1, 42, "once-only"); again.order != admitted {
		t.Errorf("told %+v, then %+v", got, again)
	}
	sale.urls = []string{b.url}
	if other := sale.buyUntilAnswered(0, 42, ""); other.code != "already_ordered" {
		t.Errorf("without the key: %+v", other)
	}
	if now := sale.atRest(0); now.Orders != 2 || !now.Balanced {
		t.Errorf("%+v", now)
	}
	if status := sale.status(0, admitted, 42, ""); status != "confirmed" {
		t.Errorf("the order is %q", status)
	}
	t.Logf("order %s, repetition told %q", admitted, got.code)
}
