package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// A voucher that Redis has no more is unknown to look-ups and audits until it is open. No buyer opens it if memory
// refuses them all: it is sold out, or its sale has not begun. So look-ups and audits open it.
func TestLookupsOpenAClosedVoucher(t *testing.T) {
	t.Parallel()
	const stranger = 999
	for name, ask := range map[string]func(ctx context.Context, s *fixture, g *Gate) error{
		"a list": func(ctx context.Context, _ *fixture, g *Gate) error {
			_, err := g.OrdersOf(ctx, stranger)
			return err
		},
		"an order": func(ctx context.Context, _ *fixture, g *Gate) error {
			_, err := g.Lookup(ctx, stranger, 12345)
			return err
		},
		"an audit": func(ctx context.Context, s *fixture, g *Gate) error {
			_, err := g.Audit(ctx, s.store.voucher.ID)
			return err
		},
		"an idempotency key": func(ctx context.Context, s *fixture, g *Gate) error {
			_, err := g.OrderOf(ctx, &s.store.voucher, stranger)
			return err
		},
	} {
		for _, buckets := range []int{1, 4} {
			for _, crashed := range []bool{false, true} { // a process that opened it and died
				inBubble(t, 10, func(t *testing.T, s *fixture, _ *simulate.Redis) {
					s.split(buckets)
					crowd(t, s, []*Gate{s.gate(nil)}, usersOf(10, 1, anyBucket))
					s.takeAll()
					for _, keys := range s.buckets() {
						fail.NowIf(t, s.client.Del(t.Context(), keys.Meta, keys.Users, keys.Orders).Err())
					}
					if crashed {
						fail.NowIf(t, fail.Of(s.store.Close(t.Context(), s.store.voucher.ID)))
					}
					fresh := s.gate(nil)
					until(t, fmt.Sprintf("%s opens %d buckets, crashed %v", name, buckets, crashed), func() bool {
						err := ask(t.Context(), s, fresh)
						if err != nil && !errors.Is(err, order.ErrNotFound) && !errors.Is(err, order.ErrUnavailable) {
							t.Fatal(err)
						}
						return !errors.Is(err, order.ErrUnavailable)
					})
					s.balanced(fresh, 10)
				})
			}
		}
	}
}

// A voucher that cannot be opened, since one of its orders cannot be written, is no reason to refuse all users their
// lists for ever.
func TestLookupsDoNotWaitForAStuckVoucher(t *testing.T) {
	t.Parallel()
	const buyer, id, stranger = 1, 501, 999
	for _, buckets := range []int{1, 4} {
		inBubble(t, 10, func(t *testing.T, s *fixture, _ *simulate.Redis) {
			s.split(buckets)
			if err := s.buy(s.gate(nil), buyer, id); err != nil { // and nobody writes it
				t.Fatal(err)
			}
			fail.NowIf(t, fail.Of(s.store.Close(t.Context(), s.store.voucher.ID)))
			g := s.gate(nil)
			g.openClosed(s.store.voucher.ID)
			until(t, "every bucket is closed", func() bool {
				v := g.known(s.store.voucher.ID)
				return v != nil && !slices.ContainsFunc(v.states(t.Context()), func(st ledger.State) bool { return st.Epoch != 3 })
			})
			fail.Unless(t, fail.Of(g.OrdersOf(t.Context(), stranger)), order.ErrUnavailable, "while the voucher is being opened")
			simulate.Sleep(stuckAfter)
			if all, err := g.OrdersOf(t.Context(), stranger); err != nil || len(all) != 0 {
				t.Errorf("a user without an order: %v, %v", all, err)
			}
			fail.Unless(t, fail.Of(g.Lookup(t.Context(), stranger, 77)), order.ErrNotFound, "an order that there is not")
			if all, err := g.OrdersOf(t.Context(), buyer); err != nil || len(all) != 1 || all[0].ID != id {
				t.Errorf("the user whose order waits: %v, %v", all, err)
			}
			fail.Unless(t, s.buy(s.gate(func(c *Config) { c.OpenWait = time.Millisecond }), 2, 502), order.ErrUnavailable, "a new order")
			s.takeAll()
			until(t, "the voucher is open", func() bool { return s.buy(g, 3, 503) == nil })
			s.takeAll()
			s.balanced(g, 2)
		})
	}
}

// After Redis was emptied every voucher is closed. One scan begins with some of them.
func TestLookupsOpenSomeVouchersAtATime(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	for n := range int64(10 * opensPerNode) {
		s.store.others = append(s.store.others, contract.AdmissionVoucher{VoucherID: 8000 + n, Buckets: 1, Epoch: 2})
	}
	g := s.gate(nil)
	opened := make(map[int64]int)
	g.lookups.open = func(id int64) bool {
		opened[id]++
		return opened[id] == 1
	}
	for scans := 1; scans <= 10; scans++ {
		taken := scanFor(1)
		g.lookups.takeScan(t.Context(), taken)
		fail.NowUnequal(t, len(opened), scans*opensPerNode, "vouchers after %d scans", scans)
		for a, err := range taken.answers(t.Context()) {
			fail.NowIf(t, err)
			fail.Unless(t, a.missing(1), order.ErrUnavailable, "closed vouchers are not unknown")
		}
	}
	if keys := ledger.KeysOf(s.config.Prefix, 8000, 0); s.client.Exists(t.Context(), keys.Meta).Val() != 0 {
		t.Error("the fixture has the voucher in Redis")
	}
}
