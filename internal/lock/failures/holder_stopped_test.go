package failures_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest/nodestore"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// stopped is a sale by two processes, the first of which stops (SIGSTOP) between
// having the lock and having written, until the second one has sold.
type stopped struct {
	mechanism string
	stock     voucher.Stock
	left      int64         // pieces on sale
	ttl       time.Duration // 0: renewed
	tells     bool          // the mechanism tells holders
	oversold  int64         // that the late write lands shows so
}

// holderStopped: a lock alone cannot keep a late write away, not even from a
// program that asks its context before each step. What the write carries can.
func holderStopped(t *testing.T, r *report) {
	for _, s := range []stopped{
		{mechanism: "reentrant", stock: voucher.StockUnguarded, left: 1, tells: true, oversold: 1},
		{mechanism: "lua", stock: voucher.StockUnguarded, left: 1, ttl: lease, oversold: 1},
		// With two pieces left, nothing but the token can be what refuses.
		{mechanism: "fenced", stock: voucher.StockFenced, left: 2, tells: true},
	} {
		t.Run(s.mechanism, func(t *testing.T) { t.Parallel(); s.prove(t, r) })
	}
}

func (s stopped) prove(t *testing.T, r *report) {
	server, prefix, where := testkit.Redis(t), testkit.KeyPrefix(t), testkit.MariaDB(t)
	j := job{Do: "sell", Mechanism: s.mechanism, Addr: server.Addr(), Prefix: prefix, DSN: where.DSN}
	l := process(t, s.mechanism, nodestore.Dial(t, server.Addr(), nil), j.config())
	sale := newShop(t, where.DSN, l, s.left, func(p *voucher.Policy) {
		p.Lock, p.Stock, p.LockTTLMS = s.mechanism, s.stock, s.ttl.Milliseconds()
	})
	first := startChild(t, j)
	first.WaitLine(t, "^at the write$")
	since := time.Now()
	old, err := strconv.ParseUint(first.WaitLine(t, `^token: (\d+)$`)[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}

	if err := sale.buy(t.Context(), 2); err != nil {
		t.Fatalf("the second holder's order: %v", err)
	}
	took := time.Since(since)
	between(t, "the second holder had sold", took, 0, lease+2*slack)
	if a := sale.audit(t); a.Orders != 1 || !a.Balanced() {
		t.Errorf("while the first holder stands still: %+v", a)
	}
	until(t, "the first holder to wake", func() bool {
		first.Resume()
		return strings.Contains(first.Output(), "\nwoke\n")
	})
	answer := first.WaitLine(t, `^order: (.*)$`)[1]
	if err := first.Wait(); err != nil {
		t.Errorf("the first holder's process: %v", err)
	}
	s.outcome(t, r, sale.audit(t), answer, took)
	if s.stock == voucher.StockFenced {
		s.fenced(t, sale, old, fenceToken(t, where))
	}
	s.told(t, r, first)
}

// outcome is what the late write came to.
func (s stopped) outcome(t *testing.T, r *report, a order.Audit, answer string, took time.Duration) {
	t.Helper()
	fault := "holder stopped"
	if s.oversold > 0 {
		if a.Oversold() != s.oversold || answer != "<nil>" {
			t.Errorf("the late order was told %s: %+v, want %d oversold", answer, a, s.oversold)
		}
		r.saw(fault, s.mechanism, took, "a second holder sells; then the late write lands: oversold by %d", a.Oversold())
		return
	}
	if a.Orders != 1 || !a.Balanced() || a.Stock != s.left-1 || answer == "<nil>" {
		t.Errorf("the late order was told %s: %+v, want it refused", answer, a)
	}
	r.saw(fault, s.mechanism, took, "a second holder sells; then the late write is refused: %d of %d sold, balanced", a.Orders, a.InitialStock)
}

// fenced checks that it is the token that the late write failed on.
func (s stopped) fenced(t *testing.T, sale *shop, old, newest uint64) {
	t.Helper()
	if old == 0 || newest <= old {
		t.Errorf("tokens %d and %d, want them to grow", old, newest)
	}
	if err := sale.write(t.Context(), old); !errors.Is(err, order.ErrStale) {
		t.Errorf("a write with token %d after one with %d: %v, want ErrStale", old, newest, err)
	}
	if err := sale.write(t.Context(), newest); err != nil {
		t.Errorf("a write with the newest token: %v", err)
	}
}

// told checks what the holder heard when it woke.
func (s stopped) told(t *testing.T, r *report, first *testkit.Process) {
	t.Helper()
	release := first.WaitLine(t, `^release: (.*)$`)[1]
	gone := strings.HasPrefix(release, lock.ErrExpired.Error()) || strings.HasPrefix(release, lock.ErrLost.Error())
	if !gone {
		t.Errorf("the release said %s, want expired or lost", release)
	}
	if !s.tells {
		first.WaitLine(t, "^not told$")
		r.saw("holder stopped, woken", s.mechanism, 0, "is told nothing; its release says %q", release)
		return
	}
	heard := first.WaitLine(t, `^told: (-?\d+) (.*)$`)
	us, err := strconv.ParseInt(heard[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	took := max(time.Duration(us)*time.Microsecond, time.Microsecond)
	between(t, "the woken holder was told", took, 0, slack)
	if !strings.HasPrefix(heard[2], lock.ErrExpired.Error()) {
		t.Errorf("the woken holder was told %s, want expired", heard[2])
	}
	r.saw("holder stopped, woken", s.mechanism, took, "is told %q", heard[2])
}
