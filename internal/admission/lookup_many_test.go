package admission

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// A burst of requests for unknown orders costs Redis as much as a few scans, not vouchers times requests, also when all
// vouchers have pending orders.
func TestLookupsShareTheirCommands(t *testing.T) {
	t.Parallel()
	const requests, users = 200, 50
	for _, pending := range []string{"one voucher", "all vouchers"} {
		inBubble(t, 10, func(t *testing.T, s *fixture, server *simulate.Redis) {
			var commands atomic.Int64
			server.Refuse(func(command string, _ ...string) string {
				if slices.Contains([]string{"HGET", "XLEN", "HMGET", "EVALSHA", "XRANGE", "EXISTS"}, command) {
					commands.Add(1)
				}
				return ""
			})
			lists := &changingList{store: s.store}
			g := s.gate(func(c *Config) { c.Store = lists })
			fail.NowIf(t, s.buy(g, 1, 11))
			for _, vouchers := range []int{10, 100} {
				for n := len(s.store.others) + 1; n < vouchers; n++ {
					v := otherVoucher{id: s.store.voucher.ID + int64(n), buckets: 1, epoch: 2}
					if pending == "all vouchers" {
						v.orders = map[int64]int64{1000: int64(n)}
					}
					s.add(v)
				}
				for what, ask := range map[string]func(user int64) error{
					"an unknown order": func(user int64) error {
						if _, err := g.Lookup(t.Context(), user, 999); !errors.Is(err, order.ErrNotFound) {
							return fmt.Errorf("Lookup: %w", err)
						}
						return nil
					},
					"a user's orders": func(user int64) error {
						_, err := g.OrdersOf(t.Context(), user)
						return err
					},
				} {
					before, scanned := commands.Load(), lists.read.Load()
					var asking sync.WaitGroup
					for n := range int64(requests) {
						asking.Go(func() {
							fail.If(t, ask(n%users), "%s", what)
						})
					}
					asking.Wait()
					asked := int(commands.Load() - before)
					scans := int(lists.read.Load() - scanned)
					// A scan sends 2 commands for each voucher, and 2 more for each that has pending orders. 200
					// concurrent requests need 2 scans; on a slow machine some more.
					if limit := scans * 4 * vouchers; asked > limit || scans > requests/4 {
						t.Errorf("%d vouchers, %s with pending orders, %s: %d scans, %d commands, want at most %d", vouchers, pending, what, scans, asked, limit)
					}
				}
			}
		})
	}
}

// An order that one process has accepted is found at once by another one: at its gate or, once the order is persisted,
// in the database.
func TestLookupsFindWhatWasAccepted(t *testing.T) {
	t.Parallel()
	for _, buckets := range []int{1, 5} {
		for _, consumer := range []string{"paused", "running"} {
			t.Run(fmt.Sprintf("%d buckets, consumer %s", buckets, consumer), func(t *testing.T) {
				const orders, buyers = 60, 10
				s := newFixture(t, testkit.AnyRedis(t), 2*orders)
				s.split(buckets)
				here, there := s.gate(nil), s.gate(nil)
				finish := func() {}
				if consumer == "running" {
					finish = s.run()
				}
				var user, persisted atomic.Int64
				var buying sync.WaitGroup
				for range buyers {
					buying.Go(func() {
						for u := user.Add(1); u <= orders; u = user.Add(1) {
							fail.Unless(t, s.buy(here, u, 1000+u), nil, "a buyer")
							if s.mustBeFound(there, u, 1000+u) {
								persisted.Add(1)
							}
						}
					})
				}
				buying.Wait()
				finish()
				if consumer == "paused" && persisted.Load() > 0 {
					t.Error("the consumer was at work")
				}
				s.takeAll()
			})
		}
	}
}

// mustBeFound looks for an order as [order.Service] does: at the gate, then in the database. It reports whether only
// the database had it.
func (s *fixture) mustBeFound(g *Gate, user, id int64) (inDatabase bool) {
	o, err := g.Lookup(s.t.Context(), user, id)
	switch {
	case errors.Is(err, order.ErrNotFound) && s.store.has(user, id):
		inDatabase = true
	case err != nil || o.ID != id || o.UserID != user:
		s.t.Errorf("order %d is not found: %+v, %v", id, o, err)
	}
	all, err := g.OrdersOf(s.t.Context(), user)
	if err != nil || len(all) > 1 || len(all) == 1 && all[0].ID != id || len(all) == 0 && !s.store.has(user, id) {
		s.t.Errorf("order %d is not listed: %+v, %v", id, all, err)
	}
	return inDatabase
}
