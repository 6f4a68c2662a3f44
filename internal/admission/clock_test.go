package admission

import (
	"context"
	"testing"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// Redis' clock jumps during a sale, because an operator sets it or another server takes over. The first call after the
// jump has expired by the new clock, the next one has not.
func TestRedisClockJumps(t *testing.T) {
	t.Parallel()
	inBubble(t, 100, func(t *testing.T, s *fixture, server *simulate.Redis) {
		g := s.gate(nil)
		user := int64(0)
		buy := func(when string, want error) {
			t.Helper()
			user++
			begun := time.Now()
			fail.Unless(t, s.buy(g, user, user+1000), want, "%s", when)
			if took := time.Since(begun); took > g.config.AttemptTimeout {
				t.Errorf("%s: it took %v", when, took)
			}
		}
		buy("before", nil)
		jump(server, 30*time.Minute)
		buy("half an hour ahead", nil)
		jump(server, -30*time.Minute)
		buy("an hour back from there", nil)
		jump(server, -2*time.Hour)
		buy("before the sale", voucher.ErrNotStarted)
		jump(server, 0)
		buy("right again", nil)
		jump(server, 2*time.Hour)
		buy("after the sale", voucher.ErrEnded)
		jump(server, 0)
		buy("right again, which nobody has noticed", voucher.ErrEnded)
		g.Check(t.Context())
		buy("right again", nil)
		finish := s.run()
		finish()
		s.balanced(g, 5)
		fail.Unequal(t, s.store.epochState.Epoch, 2, "closed for a clock: epoch")
	})
}

// The voucher is closed while Redis' clock shows a time after the sale. No request asks Redis any more, so the check
// must find out that the clock is right again.
func TestCheckReadsTheClockOfAClosedVoucher(t *testing.T) {
	t.Parallel()
	inBubble(t, 100, func(t *testing.T, s *fixture, server *simulate.Redis) {
		g := s.gate(nil)
		fail.NowIf(t, s.buy(g, 1, 11))
		finish := s.run()
		finish()
		jump(server, 2*time.Hour)
		fail.NowUnless(t, s.buy(g, 2, 21), voucher.ErrEnded, "after the sale")
		p := g.voucher(&s.store.voucher)
		_ = p.buckets[0].voucher.markClosed(p.buckets[0], s.store.epochState.Epoch, ledger.Closed)
		jump(server, 0)
		g.Check(t.Context())
		fail.Unless(t, s.buy(g, 2, 21), nil, "right again")
	})
}

// jump sets the server's clock ahead, or back, of what it should be.
func jump(server *simulate.Redis, by time.Duration) {
	server.Mini().SetTime(time.Now().Add(by))
}

// The reply to a call is lost, and Redis' clock goes back before the call is repeated. An accepted order is reported at
// once. A refusal is not final while the first call might still act by that clock, so the buyer is told after the
// DecisionTimeout that the outcome is unknown, not when the clock has caught up.
func TestClockGoesBackWhileAnOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	const attempt, decision = 500 * time.Millisecond, 3 * time.Second
	for name, tc := range map[string]struct {
		stock int64
		want  error
		after time.Duration
	}{"accepted": {1, nil, attempt + firstPause}, "sold out": {0, order.ErrUnavailable, decision}} {
		inBubble(t, tc.stock, func(t *testing.T, s *fixture, server *simulate.Redis) {
			link := simulate.NewLink()
			g := s.gate(func(c *Config) {
				c.Client, c.AttemptTimeout, c.DecisionTimeout = through(t, link, server), attempt, decision
			})
			fail.NowIf(t, g.Open(t.Context(), &s.store.voucher))
			link.LoseReply(1, simulate.Silence, func() { jump(server, -30*time.Minute) })
			begun := time.Now()
			fail.Unless(t, s.buy(g, 1, 11), tc.want, "%s", name)
			fail.Unequal(t, time.Since(begun), tc.after, "%s: told after", name)
		})
	}
}

// The prepared users of a voucher expire before it is opened. It must not be opened without them.
func TestVoucherIsNotOpenedWithoutItsUsers(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	fail.NowIf(t, s.buy(s.gate(nil), 1, 11))
	s.takeAll()
	fail.NowIf(t, s.client.Del(t.Context(), s.keys.Meta, s.keys.Users).Err())
	c := s.config.WithDefaults()
	expired := false
	g := newGate(c, &faulty{buckets: newLedger(c), call: func(ctx context.Context, step string, keys ledger.Keys, do func() error) error {
		if step == "open" && !expired {
			expired = true
			s.client.Del(ctx, keys.PreparedUsers(s.store.epochState.Epoch))
		}
		return do()
	}})
	t.Cleanup(func() { _ = g.Close() })
	fail.NowIf(t, g.Open(t.Context(), &s.store.voucher))
	fail.Unless(t, s.buy(g, 1, 12), order.ErrAlreadyOrdered, "a second order")
	s.balanced(g, 1)
}

// A sale is half open, to the millisecond of the server's clock.
func TestWindowIsHalfOpen(t *testing.T) {
	t.Parallel()
	inBubble(t, 10, func(t *testing.T, s *fixture, _ *simulate.Redis) {
		s.store.voucher.BeginAt = time.Now().Add(time.Minute)
		fail.NowIf(t, s.gate(nil).Open(t.Context(), &s.store.voucher))
		l, user := ledger.New(s.client, ledger.Options{}), int64(0)
		for _, at := range []struct {
			when time.Time
			want string
		}{
			{s.store.voucher.BeginAt.Add(-time.Millisecond), "b"}, {s.store.voucher.BeginAt, "a"},
			{s.store.voucher.EndAt.Add(-time.Millisecond), "a"}, {s.store.voucher.EndAt, "e"},
		} {
			simulate.Sleep(time.Until(at.when))
			user++
			b := batchOf(s.keys, ledger.Known{Epoch: 2}, order.Order{ID: 10 * user, UserID: user})
			if d, err := l.Admit(t.Context(), b); err != nil || d.Outcomes != at.want {
				t.Errorf("at %v: %+v, %v; want %s", at.when, d, err, at.want)
			}
		}
	})
}
