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

// stoppedSale is a sale by two processes. The first one stops (SIGSTOP) after it has
// acquired the lock and before it writes, until the second one has sold.
type stoppedSale struct {
	mechanism
	stock    voucher.Stock
	pieces   int64 // on sale
	oversold int64 // the result of the late write
}

// holderStopped shows that no lock alone can prevent a late write, not even if the program
// checks its context before each step. A fencing token in the write can.
func holderStopped(t *testing.T, r *report) {
	for _, m := range mechanisms() {
		s := stoppedSale{mechanism: m, stock: voucher.StockUnguarded, pieces: 1, oversold: 1}
		switch {
		case m.noExpiry:
			continue // the second process never gets the lock
		case m.name == "fenced":
			// With two pieces on sale, only the token can be the reason for a refusal.
			s.stock, s.pieces, s.oversold = voucher.StockFenced, 2, 0
		}
		t.Run(m.name, func(t *testing.T) { t.Parallel(); s.test(t, r) })
	}
}

func (s stoppedSale) test(t *testing.T, r *report) {
	server, prefix, where := testkit.Redis(t), testkit.KeyPrefix(t), testkit.MariaDB(t)
	j := job{Mechanism: s.name, Addr: server.Addr(), Prefix: prefix, DSN: where.DSN}
	l := newProcess(t, s.name, nodestore.Dial(t, server.Addr(), nil), j.config())
	shop := newShop(t, where.DSN, l, s.pieces, func(p *voucher.Policy) {
		p.Lock, p.Stock, p.LockTTLMS = s.name, s.stock, s.lease(lease).TTL.Milliseconds()
	})
	first := startChild(t, j)
	first.WaitLine(t, "^at the write$")
	stopped := time.Now()
	oldToken, err := strconv.ParseUint(first.WaitLine(t, `^token: (\d+)$`)[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}

	if err := shop.buy(t.Context(), 2); err != nil {
		t.Fatalf("the second holder's order: %v", err)
	}
	took := time.Since(stopped)
	mustBeBetween(t, "the second holder had sold", took, 0, lease+2*slack)
	if a := shop.audit(t); a.Orders != 1 || !a.Balanced() {
		t.Errorf("while the first holder is stopped: %+v", a)
	}
	testkit.Until(t, "the first holder to wake", func() bool {
		first.Resume()
		return strings.Contains(first.Output(), "\nwoke\n")
	})
	answer := first.WaitLine(t, `^order: (.*)$`)[1]
	if err := first.Wait(); err != nil {
		t.Errorf("the first holder's process: %v", err)
	}
	s.checkLateWrite(t, r, shop.audit(t), answer, took)
	if s.stock == voucher.StockFenced {
		s.checkTokens(t, shop, oldToken, fenceToken(t, where))
	}
	s.checkNotice(t, r, first)
}

// checkLateWrite checks whether the late write was carried out or refused.
func (s stoppedSale) checkLateWrite(t *testing.T, r *report, a order.Audit, answer string, took time.Duration) {
	t.Helper()
	const fault = "holder stopped"
	if s.oversold > 0 {
		if a.Oversold() != s.oversold || answer != "<nil>" {
			t.Errorf("the late order returned %s: %+v, want %d oversold", answer, a, s.oversold)
		}
		r.add(fault, s.name, took, "a second holder sells; then the late write is carried out: oversold by %d", a.Oversold())
		return
	}
	if a.Orders != 1 || !a.Balanced() || a.Stock != s.pieces-1 || answer == "<nil>" {
		t.Errorf("the late order returned %s: %+v, want a refusal", answer, a)
	}
	r.add(fault, s.name, took, "a second holder sells; then the late write is refused: %d of %d sold, balanced",
		a.Orders, a.InitialStock)
}

// checkTokens checks that the token is the reason for the refusal.
func (s stoppedSale) checkTokens(t *testing.T, shop *shop, old, newest uint64) {
	t.Helper()
	if old == 0 || newest <= old {
		t.Errorf("tokens %d and %d, want them to grow", old, newest)
	}
	if err := shop.write(t.Context(), old); !errors.Is(err, order.ErrStale) {
		t.Errorf("a write with token %d after one with %d: %v, want ErrStale", old, newest, err)
	}
	if err := shop.write(t.Context(), newest); err != nil {
		t.Errorf("a write with the newest token: %v", err)
	}
}

// checkNotice checks what the holder was told when it woke: by its lease if a watchdog
// renews it, otherwise at most by its release.
func (s stoppedSale) checkNotice(t *testing.T, r *report, first *testkit.Process) {
	t.Helper()
	const fault = "holder stopped, woken"
	release := first.WaitLine(t, `^release: (.*)$`)[1]
	expired := strings.HasPrefix(release, lock.ErrExpired.Error()) || strings.HasPrefix(release, lock.ErrLost.Error())
	if expired == s.blindRelease {
		t.Errorf("the release returned %s; expired or lost is %v, want %v", release, expired, !s.blindRelease)
	}
	if !s.renews {
		first.WaitLine(t, "^not told$")
		r.add(fault, s.name, 0, "is not told; its release returns %q", release)
		return
	}
	notice := first.WaitLine(t, `^told: (-?\d+) (.*)$`)
	us, err := strconv.ParseInt(notice[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	took := max(time.Duration(us)*time.Microsecond, time.Microsecond)
	mustBeBetween(t, "the woken holder was told", took, 0, slack)
	if !strings.HasPrefix(notice[2], lock.ErrExpired.Error()) {
		t.Errorf("the woken holder was told %s, want expired", notice[2])
	}
	r.add(fault, s.name, took, "is told %q", notice[2])
}
