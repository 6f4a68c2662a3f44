package admission

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestLookup(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	mine, other := s.gate(nil), s.gate(nil)
	id := s.store.voucher.ID
	fail.Unless(t, fail.Of(other.Lookup(t.Context(), 1, 11)), order.ErrNotFound, "before the voucher was opened")
	if a, err := other.Audit(t.Context(), id); err != nil || a != (order.GateAudit{Stock: 10, Epoch: 1}) {
		t.Errorf("Audit before the voucher was opened: %+v, %v", a, err)
	}
	fail.NowIf(t, s.buy(mine, 1, 11))
	want := order.Order{ID: 11, VoucherID: id, UserID: 1, Status: order.Pending}
	if o, err := other.Lookup(t.Context(), 1, 11); err != nil || o != want {
		t.Errorf("Lookup = %+v, %v", o, err)
	}
	if o, err := other.OrdersOf(t.Context(), 1); err != nil || len(o) != 1 || o[0] != want {
		t.Errorf("OrdersOf = %+v, %v", o, err)
	}
	for name, c := range map[string][2]int64{"another order": {1, 12}, "another user's order": {2, 11}} {
		fail.Unless(t, fail.Of(other.Lookup(t.Context(), c[0], c[1])), order.ErrNotFound, "%s", name)
	}
	if a, err := mine.Audit(t.Context(), id); err != nil || a != (order.GateAudit{Stock: 9, Pending: 1, Epoch: 2, Seq: 1}) {
		t.Errorf("Audit = %+v, %v", a, err)
	}
	// A rejected order is not found any more.
	fail.NowIf(t, fail.Of(s.take(t.Context(), true)))
	fail.Unless(t, fail.Of(other.Lookup(t.Context(), 1, 11)), order.ErrNotFound, "a rejected order")
	// Once Redis was emptied, it is unknown who had an order. The look-up would have the voucher opened
	// (TestLookupsOpenAClosedVoucher), and the audit might come after that.
	other.lookups.open = func(int64) bool { return false }
	fail.NowIf(t, s.client.Del(t.Context(), s.keys.Meta, s.keys.Users).Err())
	fail.Unless(t, fail.Of(other.Lookup(t.Context(), 1, 11)), order.ErrUnavailable, "while Redis knows nothing")
	fail.Unless(t, fail.Of(other.Audit(t.Context(), id)), order.ErrUnavailable, "Audit while Redis knows nothing")
}

func TestLookupWithoutServers(t *testing.T) {
	t.Parallel()
	inBubble(t, 10, func(t *testing.T, s *fixture, server *simulate.Redis) {
		link := simulate.NewLink()
		g := s.gate(func(c *Config) { c.Client = through(t, link, server) })
		fail.NowIf(t, s.buy(g, 1, 11))
		link.Cut()
		fail.Unless(t, fail.Of(g.Lookup(t.Context(), 1, 11)), order.ErrUnavailable, "without Redis")
		fail.Unless(t, fail.Of(g.Audit(t.Context(), s.store.voucher.ID)), order.ErrUnavailable, "Audit without Redis")
		s.store.fail(errors.Join(order.ErrUnavailable, io.EOF))
		fail.Unless(t, fail.Of(s.gate(nil).Lookup(t.Context(), 1, 11)), order.ErrUnavailable, "without a database")
		s.store.fail(nil)
		ended, end := context.WithCancel(t.Context())
		end()
		fail.Unless(t, fail.Of(g.Lookup(ended, 1, 11)), context.Canceled, "after the context ended")
		fail.Unless(t, g.Admit(ended, &s.store.voucher, order.Order{ID: 1, UserID: 1}), context.Canceled, "Admit after the context ended")
	})
}

// A voucher that was created after the last scan is found too.
func TestLookupOfANewVoucher(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	g := s.gate(nil)
	s.store.voucher.EndAt = time.Now().Add(-2 * time.Hour) // not listed
	if o, err := g.OrdersOf(t.Context(), 1); err != nil || len(o) != 0 {
		t.Fatal(o, err)
	}
	s.store.voucher.EndAt = time.Now().Add(time.Hour)
	fail.NowIf(t, s.buy(s.gate(nil), 1, 11))
	fail.If(t, fail.Of(g.Lookup(t.Context(), 1, 11)))
}
