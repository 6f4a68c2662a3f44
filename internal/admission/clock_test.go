package admission

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// Redis' clock jumps during a sale, because an operator sets it or another server takes over. The
// first call after the jump has expired by the new clock, the next one has not.
func TestRedisClockJumps(t *testing.T) {
	t.Parallel()
	server, clock := testkit.NewRedisWithClock(t)
	s := newFixture(t, at(server.Addr()), 100) // on sale from an hour ago for two
	g := s.gate(nil)
	user := int64(0)
	buy := func(when string, want error) {
		t.Helper()
		user++
		watch := testkit.StartStopwatch()
		if err := s.buy(g, user, user+1000); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", when, err, want)
		}
		if took := watch.Stop(); took > g.config.AttemptTimeout {
			t.Errorf("%s: it took %v", when, took)
		}
	}
	buy("before", nil)
	clock.Jump(30 * time.Minute)
	buy("half an hour ahead", nil)
	clock.Jump(-30 * time.Minute)
	buy("an hour back from there", nil)
	clock.Jump(-2 * time.Hour)
	buy("before the sale", voucher.ErrNotStarted)
	clock.Jump(0)
	buy("right again", nil)
	clock.Jump(2 * time.Hour)
	buy("after the sale", voucher.ErrEnded)
	clock.Jump(0)
	buy("right again, which nobody has noticed", voucher.ErrEnded)
	g.Check(t.Context())
	buy("right again", nil)
	finish := s.run()
	finish()
	s.balanced(g, 5)
	if st := s.store.epochState; st.Epoch != 2 {
		t.Errorf("epoch %d: it was closed for a clock", st.Epoch)
	}
}

// The voucher is closed while Redis' clock shows a time after the sale. No request asks Redis any more,
// so the check must find out that the clock is right again.
func TestCheckReadsTheClockOfAClosedVoucher(t *testing.T) {
	t.Parallel()
	server, clock := testkit.NewRedisWithClock(t)
	s := newFixture(t, at(server.Addr()), 100)
	g := s.gate(nil)
	if err := s.buy(g, 1, 11); err != nil {
		t.Fatal(err)
	}
	finish := s.run()
	finish()
	clock.Jump(2 * time.Hour)
	if err := s.buy(g, 2, 21); !errors.Is(err, voucher.ErrEnded) {
		t.Fatalf("after the sale: %v", err)
	}
	p := g.voucher(&s.store.voucher)
	_ = p.buckets[0].voucher.markClosed(p.buckets[0], s.store.epochState.Epoch, ledger.Closed)
	clock.Jump(0)
	g.Check(t.Context())
	if err := s.buy(g, 2, 21); err != nil {
		t.Errorf("right again: %v", err)
	}
}

// The reply to a call is lost, and Redis' clock goes back before the call is repeated. An accepted order
// is reported at once. A refusal is not final while the first call might still act by that clock, so the
// buyer is told after the DecisionTimeout that the outcome is unknown, not when the clock has caught up.
func TestClockGoesBackWhileAnOutcomeIsUnknown(t *testing.T) {
	server, clock := testkit.NewRedisWithClock(t)
	proxy := testkit.NewProxy(t, server.Addr())
	for _, tc := range []struct {
		name  string
		stock int64
		want  error
	}{{"accepted", 1, nil}, {"sold out", 0, order.ErrUnavailable}} {
		t.Run(tc.name, func(t *testing.T) {
			clock.Jump(0)
			s := newFixture(t, at(server.Addr()), tc.stock)
			g := s.gate(func(c *Config) {
				c.Client = dial(t, at(proxy.Addr()))
				c.AttemptTimeout, c.DecisionTimeout = 500*time.Millisecond, 3*time.Second
			})
			if err := g.Open(t.Context(), &s.store.voucher); err != nil {
				t.Fatal(err)
			}
			calls := func() string {
				return s.client.InfoMap(t.Context(), "commandstats").Item("Commandstats", "cmdstat_evalsha")
			}
			proxy.BlackholeReplies()
			answer, before := make(chan error, 1), calls()
			begun, watch := time.Now(), testkit.StartStopwatch()
			go func() { answer <- s.buy(g, 1, 11) }()
			testkit.Until(t, "a call that Redis carried out", func() bool {
				return calls() != before && time.Since(begun) > 100*time.Millisecond
			})
			clock.Jump(-30 * time.Minute)
			proxy.Reset()
			if err := <-answer; !errors.Is(err, tc.want) {
				t.Errorf("told %v, want %v", err, tc.want)
			}
			if took := watch.Stop(); took > g.config.DecisionTimeout+time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// jumpingClock is Redis with a clock that jumps for a moment when a voucher is about to be opened.
type jumpingClock struct {
	buckets
	clock *testkit.Clock
	once  sync.Once
}

func (l *jumpingClock) Open(ctx context.Context, keys ledger.Keys, p ledger.Opening) (bool, error) {
	l.once.Do(func() { l.clock.Jump(ledger.PreparedFor + time.Minute) })
	ok, err := l.buckets.Open(ctx, keys, p)
	l.clock.Jump(0)
	return ok, err
}

// The prepared users of a voucher expire before it is opened. It must not be opened without them.
func TestVoucherIsNotOpenedWithoutItsUsers(t *testing.T) {
	t.Parallel()
	server, clock := testkit.NewRedisWithClock(t)
	s := newFixture(t, at(server.Addr()), 10)
	if err := s.buy(s.gate(nil), 1, 11); err != nil {
		t.Fatal(err)
	}
	s.takeAll()
	if err := s.client.Del(t.Context(), s.keys.Meta, s.keys.Users).Err(); err != nil {
		t.Fatal(err)
	}
	c := s.config.WithDefaults()
	g := newGate(c, &jumpingClock{buckets: newLedger(c), clock: clock})
	t.Cleanup(func() { _ = g.Close() })
	if err := g.Open(t.Context(), &s.store.voucher); err != nil {
		t.Fatal(err)
	}
	if err := s.buy(g, 1, 12); !errors.Is(err, order.ErrAlreadyOrdered) {
		t.Errorf("a second order: %v", err)
	}
	s.balanced(g, 1)
}
