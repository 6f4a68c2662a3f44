package admission

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// buyUnder places an order under a key and returns the order that its user is told of.
func (s *fixture) buyUnder(g *Gate, user, id int64, key order.KeyHash) (int64, error) {
	o := order.Order{ID: id, UserID: user, VoucherID: s.store.voucher.ID, Key: key}
	err := g.Admit(context.Background(), &s.store.voucher, o)
	if repeated, ok := errors.AsType[*order.RepeatedError](err); ok {
		return repeated.ID, nil
	}
	return id, err
}

// wantOrder checks that a request under a key is told of an order.
func (s *fixture) wantOrder(g *Gate, user, id int64, key order.KeyHash, want int64) {
	s.t.Helper()
	if got, err := s.buyUnder(g, user, id, key); err != nil || got != want {
		s.t.Errorf("user %d with order %d under key %d: told of %d, %v; want %d", user, id, key, got, err, want)
	}
}

// The repetition of a request has another id, and is told of the order that the first one placed: by any process,
// before and after the order is persisted, after its stock is sold, and after Redis lost everything.
func TestSameKeyIsToldTheSameOrder(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(t *testing.T, s *fixture, _ *simulate.Redis) {
		first, second := s.gate(nil), s.gate(nil)
		s.wantOrder(first, 1, 11, 77, 11)
		s.wantOrder(second, 1, 12, 77, 11)
		fail.Unless(t, fail.Of(s.buyUnder(second, 1, 13, 78)), order.ErrAlreadyOrdered, "another key")
		fail.Unless(t, s.buy(second, 1, 14), order.ErrAlreadyOrdered, "no key")
		s.wantOrder(second, 1, 11, 77, 11) // with the id, too

		s.takeAll()
		s.wantOrder(first, 1, 15, 77, 11)
		o, err := second.OrderOf(t.Context(), &s.store.voucher, 1)
		if err != nil || o.ID != 11 || o.Key != 77 || o.VoucherID != s.store.voucher.ID || o.Status != order.Pending {
			t.Errorf("OrderOf = %+v, %v", o, err)
		}
		fail.Unless(t, fail.Of(second.OrderOf(t.Context(), &s.store.voucher, 2)), order.ErrNotFound, "OrderOf a user without one")

		s.wantOrder(first, 2, 21, 0, 21)
		fail.Unless(t, fail.Of(s.buyUnder(first, 3, 31, 77)), voucher.ErrSoldOut, "the same key of another user, after the last unit")
		// Memory refuses without asking Redis: the caller looks for the order itself.
		fail.Unless(t, fail.Of(s.buyUnder(first, 1, 16, 77)), voucher.ErrSoldOut, "from memory")
		s.takeAll()

		fail.NowIf(t, s.client.FlushAll(t.Context()).Err())
		third := s.gate(nil)
		until(t, "the voucher to be opened again", func() bool {
			_, err := s.buyUnder(third, 3, 32, 5)
			return errors.Is(err, voucher.ErrSoldOut)
		})
		if o, err := third.OrderOf(t.Context(), &s.store.voucher, 1); err != nil || o.ID != 11 || o.Key != 77 {
			t.Errorf("after Redis lost everything, OrderOf = %+v, %v", o, err)
		}
		s.balanced(third, 2)
	})
}

// Many repetitions of one request at once, through two processes, place one order.
func TestSameKeyAtOnce(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 1000)
	gates := []*Gate{s.gate(nil), s.gate(nil)}
	const users, times = 50, 8
	told := make([][times]int64, users)
	var wg sync.WaitGroup
	for user := range users {
		for n := range times {
			wg.Go(func() {
				id := int64(1000*(user+1) + n)
				got, err := s.buyUnder(gates[n%2], int64(user+1), id, order.KeyHash(user+1))
				fail.If(t, err, "user %d", user+1)
				told[user][n] = got
			})
		}
	}
	wg.Wait()
	for user, ids := range told {
		for _, id := range ids {
			if id != ids[0] {
				t.Errorf("user %d was told of %v", user+1, ids)
				break
			}
		}
	}
	s.takeAll()
	s.balanced(gates[0], users)
}

func TestReserved(t *testing.T) {
	t.Parallel()
	for _, o := range []struct {
		id  int64
		key order.KeyHash
		is  string
	}{{1, 0, "1"}, {9223372036854775807, 0, "9223372036854775807"}, {5, 1, "5:AAAAAAAAAAE"}, {5, -1, "5:__________8"}} {
		text := ledger.Reserved(o.id, o.key)
		if id, key, err := ledger.ParseReserved(text); text != o.is || id != o.id || key != o.key || err != nil {
			t.Errorf("%+v is %q, parsed as %d, %d, %v", o, text, id, key, err)
		}
	}
	for _, bad := range []string{"", "0", "-1", "x", "1:", "1:AAAA", "1:AAAAAAAAAAE=", ":AAAAAAAAAAE", "99999999999999999999"} {
		if id, key, err := ledger.ParseReserved(bad); err == nil {
			t.Errorf("%q is parsed as %d, %d", bad, id, key)
		}
	}
}

// A reply that is lost leaves the outcome unknown, and the repetition finds it out.
func TestSameKeyAfterALostReply(t *testing.T) {
	t.Parallel()
	inBubble(t, 10, func(t *testing.T, s *fixture, server *simulate.Redis) {
		link := simulate.NewLink()
		blind := s.gate(func(c *Config) {
			c.Client, c.AttemptTimeout, c.DecisionTimeout = through(t, link, server), time.Second, 2*time.Second
		})
		s.wantOrder(blind, 1, 11, 1, 11)
		link.LoseReply(1, simulate.Silence, link.Cut)
		fail.Unless(t, fail.Of(s.buyUnder(blind, 2, 21, 2)), order.ErrUnavailable, "without a reply")
		s.wantOrder(s.gate(nil), 2, 22, 2, 21)
	})
}
