package main

import (
	"database/sql"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/admkey"
	"seckill/internal/testkit"
)

// holdRow keeps a voucher's orders from being persisted, until release.
func (s *shop) holdRow(where testkit.Database) (release func()) {
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

// until waits for a condition, at most for so long.
func until(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// inHand is how many orders a process has read and not finished.
func (s *shop) inHand(client *redis.Client, instance string) int64 {
	s.t.Helper()
	p, err := client.XPending(s.t.Context(), s.keys().Orders, admkey.Group).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	return p.Consumers[instance+"-1"]
}

// counter reads one of a process's metrics.
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

// handful is a sale of which a process has orders in its hands that it cannot finish.
type handful struct {
	*shop
	where   servers
	client  *redis.Client
	a       process
	stock   int
	orders  map[string]int
	release func()
}

func openHandful(t *testing.T, where servers) *handful {
	t.Helper()
	h := &handful{where: where, stock: 40, client: testkit.Redis(t).Client(t)}
	h.a = startProcess(t, where.with("SECKILL_INSTANCE=a"))
	h.shop = openShop(t, h.stock, admissionPolicy, h.a)
	h.release = h.holdRow(where.db)
	var codes map[string]int
	if codes, h.orders = h.rush(h.stock/2, 1, nil); codes["accepted"] != h.stock/2 {
		t.Fatalf("%v", codes)
	}
	until(t, 20*time.Second, "a has orders in its hands", func() bool { return h.inHand(h.client, "a") > 0 })
	return h
}

// goOn sells the rest at another process, and checks all of it there.
func (h *handful) goOn(p process) {
	h.t.Helper()
	h.urls = []string{p.url}
	codes, more := h.rush(h.stock, 1, nil) // those who have one already among them
	maps.Copy(h.orders, more)
	if codes["accepted"] != h.stock/2 || codes["already_ordered"] != h.stock/2 {
		h.t.Errorf("%v", codes)
	}
	h.allConfirmed(h.stock, h.orders)
	if dead := h.client.XLen(h.t.Context(), h.keys().Dead).Val(); dead != 0 {
		h.t.Errorf("%d dead letters", dead)
	}
}

// A process dies with orders in its hands and is never started again: another one takes
// them over, after the time that is set.
func TestEntriesOfADeadProcessAreClaimed(t *testing.T) {
	h := openHandful(t, sharedServers(t).with("SECKILL_CLAIM_IDLE=2s"))
	b := startProcess(t, h.where.with("SECKILL_INSTANCE=b"))
	held := h.inHand(h.client, "a")
	h.a.Kill()
	<-h.a.Done()
	killed := time.Now()
	h.release()
	h.goOn(b)
	took := time.Since(killed)
	claimed := counter(t, b, "seckill_fulfil_claimed_total")
	if claimed < float64(held) {
		t.Errorf("%v claimed of %d", claimed, held)
	}
	if took > 20*time.Second { // less than the default
		t.Errorf("it took %v", took)
	}
	t.Logf("%d in the hands of the dead process, %v claimed; confirmed %v after its death", held, claimed, took.Round(10*time.Millisecond))
}

// A process is stopped with orders in its hands, for longer than the time after which
// another one takes them over, and wakes in the middle of what it did: nothing is there
// twice, and it works on.
func TestStoppedPastTheClaimAndWoken(t *testing.T) {
	h := openHandful(t, sharedServers(t).with("SECKILL_CLAIM_IDLE=1s"))
	held := h.inHand(h.client, "a")
	h.a.Pause()
	b := startProcess(t, h.where.with("SECKILL_INSTANCE=b"))
	// While the sleeper's transaction holds what it needs, b has its orders in its hands
	// too.
	until(t, 20*time.Second, "b has taken them over", func() bool { return counter(t, b, "seckill_fulfil_claimed_total") >= float64(held) })
	h.release()
	h.a.Resume()
	h.goOn(b)
	if left := h.inHand(h.client, "a"); left != 0 {
		t.Errorf("the sleeper still has %d in its hands", left)
	}
	// It has lost nothing but time.
	after := openShop(t, 20, admissionPolicy, h.a)
	_, orders := after.rush(20, 1, nil)
	after.allConfirmed(20, orders)
}

// A process that keeps its name over a restart goes on at once with what it had in its
// hands, whatever time the others would have to wait.
func TestInstanceGoesOnAfterARestart(t *testing.T) {
	h := openHandful(t, sharedServers(t).with("SECKILL_CLAIM_IDLE=1h"))
	held := h.inHand(h.client, "a")
	h.a.Kill()
	<-h.a.Done()
	h.release()
	again := startProcess(t, h.where.with("SECKILL_INSTANCE=a"))
	h.goOn(again)
	if claimed := counter(t, again, "seckill_fulfil_claimed_total"); claimed != 0 {
		t.Errorf("%v claimed", claimed)
	}
	t.Logf("%d in its hands", held)
}

// The process dies after Redis has accepted the order and before anybody hears of it: all
// replies of Redis are lost, and then the process is. The buyer repeats at another
// process, and is told of the one order there is, by the id that the dead one gave it.
func TestRepetitionAfterALostAdmission(t *testing.T) {
	db, server := testkit.MariaDB(t), testkit.Redis(t)
	line := testkit.NewProxy(t, server.Addr())
	a := startProcess(t, servers{db: db, redis: []string{line.Addr()}}.with("SECKILL_INSTANCE=a"))
	b := startProcess(t, servers{db: db, redis: []string{server.Addr()}}.with("SECKILL_INSTANCE=b", "SECKILL_CLAIM_IDLE=1s"))
	shop := openShop(t, 10, admissionPolicy, a, b)
	if got := shop.buy(0, 1, "first"); got.code != "accepted" {
		t.Fatalf("told %+v", got)
	}
	client := server.Client(t)
	line.BlackholeReplies()
	told := make(chan outcome)
	go func() { told <- shop.buy(0, 42, "once-only") }()
	var admitted string
	until(t, 20*time.Second, "Redis has accepted the order", func() bool {
		admitted = client.HGet(t.Context(), shop.keys().Users, "42").Val()
		return admitted != ""
	})
	a.Kill()
	<-a.Done()
	if got := <-told; got.code != "network" {
		t.Fatalf("the process that died answered %+v", got)
	}
	var got outcome
	until(t, time.Minute, "the repetition has an answer", func() bool { // the key is still the dead process's
		got = shop.buy(1, 42, "once-only")
		return got.code != "busy"
	})
	// The key's first attempt is not known to have had an answer: the second finds the
	// order pending or, by then, confirmed.
	if got.code != "accepted" && got.code != "created" || got.order != admitted {
		t.Fatalf("the repetition was told %+v, Redis has %s", got, admitted)
	}
	if again := shop.buy(1, 42, "once-only"); again != got {
		t.Errorf("told %+v, then %+v", got, again)
	}
	shop.urls = []string{b.url}
	if other := shop.buy(0, 42, ""); other.code != "already_ordered" {
		t.Errorf("without the key: %+v", other)
	}
	if now := shop.atRest(0); now.Orders != 2 || !now.Balanced {
		t.Errorf("%+v", now)
	}
	if status := shop.status(0, admitted, 42, ""); status != "confirmed" {
		t.Errorf("the order is %q", status)
	}
	t.Logf("order %s, repetition told %q", admitted, got.code)
}
