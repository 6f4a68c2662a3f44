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
)

func TestLookup(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	mine, other := s.gate(nil), s.gate(nil)
	id := s.store.voucher.ID
	if _, err := other.Lookup(t.Context(), 1, 11); !errors.Is(err, order.ErrNotFound) {
		t.Errorf("before the voucher was opened: %v", err)
	}
	if a, err := other.Audit(t.Context(), id); err != nil || a != (order.GateAudit{Stock: 10, Epoch: 1}) {
		t.Errorf("Audit before the voucher was opened: %+v, %v", a, err)
	}
	if err := s.buy(mine, 1, 11); err != nil {
		t.Fatal(err)
	}
	want := order.Order{ID: 11, VoucherID: id, UserID: 1, Status: order.Pending}
	if o, err := other.Lookup(t.Context(), 1, 11); err != nil || o != want {
		t.Errorf("Lookup = %+v, %v", o, err)
	}
	if o, err := other.OrdersOf(t.Context(), 1); err != nil || len(o) != 1 || o[0] != want {
		t.Errorf("OrdersOf = %+v, %v", o, err)
	}
	for name, c := range map[string][2]int64{"another order": {1, 12}, "another user's order": {2, 11}} {
		if _, err := other.Lookup(t.Context(), c[0], c[1]); !errors.Is(err, order.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if a, err := mine.Audit(t.Context(), id); err != nil || a != (order.GateAudit{Stock: 9, Pending: 1, Epoch: 2, Seq: 1}) {
		t.Errorf("Audit = %+v, %v", a, err)
	}
	// A rejected order is not found any more.
	if _, err := s.take(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Lookup(t.Context(), 1, 11); !errors.Is(err, order.ErrNotFound) {
		t.Errorf("a rejected order: %v", err)
	}
	// Once Redis was emptied, it is unknown who had an order. The look-up would have the voucher opened
	// (TestLookupsOpenAClosedVoucher), and the audit might come after that.
	other.lookups.open = func(int64) bool { return false }
	if err := s.client.Del(t.Context(), s.keys.Meta, s.keys.Users).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Lookup(t.Context(), 1, 11); !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("while Redis knows nothing: %v", err)
	}
	if _, err := other.Audit(t.Context(), id); !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("Audit while Redis knows nothing: %v", err)
	}
}

func TestLookupWithoutServers(t *testing.T) {
	t.Parallel()
	inBubble(t, 10, func(t *testing.T, s *fixture, server *simulate.Redis) {
		link := simulate.NewLink()
		g := s.gate(func(c *Config) { c.Client = through(t, link, server) })
		if err := s.buy(g, 1, 11); err != nil {
			t.Fatal(err)
		}
		link.Cut()
		if _, err := g.Lookup(t.Context(), 1, 11); !errors.Is(err, order.ErrUnavailable) {
			t.Errorf("without Redis: %v", err)
		}
		if _, err := g.Audit(t.Context(), s.store.voucher.ID); !errors.Is(err, order.ErrUnavailable) {
			t.Errorf("Audit without Redis: %v", err)
		}
		s.store.fail(errors.Join(order.ErrUnavailable, io.EOF))
		if _, err := s.gate(nil).Lookup(t.Context(), 1, 11); !errors.Is(err, order.ErrUnavailable) {
			t.Errorf("without a database: %v", err)
		}
		s.store.fail(nil)
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := g.Lookup(ended, 1, 11); !errors.Is(err, context.Canceled) {
			t.Errorf("after the context ended: %v", err)
		}
		if err := g.Admit(ended, &s.store.voucher, order.Order{ID: 1, UserID: 1}); !errors.Is(err, context.Canceled) {
			t.Errorf("Admit after the context ended: %v", err)
		}
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
	if err := s.buy(s.gate(nil), 1, 11); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Lookup(t.Context(), 1, 11); err != nil {
		t.Error(err)
	}
}
