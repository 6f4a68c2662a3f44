package faults

import (
	"strings"
	"sync"
	"testing"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// Under a lock the process dies after the commit and before the reply. The repetition, to another process, returns the
// one order.
func TestRepetitionAfterADeathGetsTheOneAnswer(t *testing.T) {
	t.Parallel()
	s := harness.NewStores(t)
	a, b := harness.Start(t, s), harness.Start(t, s)
	sale := harness.OpenSale(t, 10, `{"faults":[{"point":"after-commit","effect":"kill"}]}`, a, b)
	fail.NowUnequal(t, sale.Buy(0, 42, "once-only").Code, "network", "the process that should have died")
	<-a.Done()
	got := sale.BuyUntilAnswered(1, 42, "once-only") // until then the reservation is still the dead process's
	fail.NowUnequal(t, got.Code, "created", "the repetition")
	fail.Unequal(t, sale.BuyUntilAnswered(1, 42, "once-only"), got, "told %+v, then", got)
	if a := sale.Audit(1); a.Orders != 1 || !a.Balanced {
		t.Errorf("%+v", a)
	}
}

// Under admission the process dies after Redis has accepted the order and before anybody is told: all replies of Redis
// are lost, and then the process dies. The buyer repeats the request at another process and gets the one order, with
// the id that the dead process gave it.
func TestRepetitionAfterALostAdmission(t *testing.T) {
	t.Parallel()
	db, server := testkit.MariaDB(t), testkit.NewRedis(t)
	line := testkit.NewProxy(t, server.Addr())
	a := harness.Start(t, harness.Stores{DB: db, Redis: []string{line.Addr()}})
	b := harness.Start(t, harness.Stores{DB: db, Redis: []string{server.Addr()}}.With("SECKILL_CLAIM_IDLE=1s"))
	sale := harness.OpenSale(t, 10, harness.AdmissionPolicy, a, b)
	fail.NowUnequal(t, sale.BuyUntilAnswered(0, 1, "first").Code, "accepted")
	// Process a needs an idle connection for the order: a new one would wait for a reply first, and others use
	// connections too.
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
	fail.NowUnequal(t, (<-told).Code, "network", "the process that died")
	sale.URLs = []string{b.URL}
	for range 2 {
		if got := sale.BuyUntilAnswered(0, 42, "once-only"); got.Code != "accepted" || got.Order != admitted {
			t.Errorf("the repetition was told %+v, Redis has %s", got, admitted)
		}
	}
	fail.Unequal(t, sale.BuyUntilAnswered(0, 42, "").Code, "already_ordered", "without the key")
	if now := sale.AtRest(0); now.Orders != 2 || !now.Balanced {
		t.Errorf("%+v", now)
	}
	fail.Unequal(t, sale.Status(0, admitted, 42, ""), "confirmed", "the order")
}
