package admission

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// trackingFixture has vouchers beside its own, on a Redis of its own.
func trackingFixture(t *testing.T, vouchers int) (s *fixture, commands func() int) {
	s = newFixture(t, at(testkit.NewRedis(t).Addr()), 1000)
	var all []otherVoucher
	for n := range int64(vouchers) {
		all = append(all, otherVoucher{id: 8000 + n, buckets: 1, epoch: 2})
	}
	s.add(all...)
	return s, func() int {
		n, err := strconv.Atoi(s.client.InfoMap(t.Context(), "stats").Item("Stats", "total_commands_processed"))
		fail.NowIf(t, err)
		return n
	}
}

// What look-ups of unknown orders cost does not grow with the number of vouchers that have no pending orders. Without
// CLIENT TRACKING each of them cost two commands for every voucher.
func TestLookupsReadOnlyWhatHasChanged(t *testing.T) {
	t.Parallel()
	for _, vouchers := range []int{10, 2500} {
		t.Run(fmt.Sprint(vouchers), func(t *testing.T) {
			t.Parallel()
			s, commands := trackingFixture(t, vouchers)
			g := s.gate(nil)
			fail.NowIf(t, s.buy(g, 1, 11))
			s.takeAll()
			fail.Unless(t, fail.Of(g.Lookup(t.Context(), 999, 999)), order.ErrNotFound, "an unknown order") // reads all of them
			before, lookups := commands(), 50
			for range lookups {
				fail.Unless(t, fail.Of(g.Lookup(t.Context(), 999, 999)), order.ErrNotFound, "an unknown order")
			}
			if n := commands() - before; n > 5*lookups {
				t.Errorf("%d look-ups with %d vouchers cost %d commands", lookups, vouchers, n)
			}
		})
	}
}

// What a look-up remembers is not older than the look-up: it finds each order that another process accepted before it
// began, also if the connection that tells of changes is lost, and notices that Redis was emptied.
func TestLookupsHearOfEveryChange(t *testing.T) {
	t.Parallel()
	s, _ := trackingFixture(t, 100)
	here, there := s.gate(nil), s.gate(nil)
	for n := range int64(200) {
		fail.Unless(t, fail.Of(here.Lookup(t.Context(), 999, 999)), order.ErrNotFound, "an unknown order")
		if n%10 == 5 {
			fail.NowIf(t, s.client.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
			for s.client.Ping(t.Context()).Err() != nil || there.config.Client.(*redis.Client).Ping(t.Context()).Err() != nil {
			}
		}
		fail.NowIf(t, s.buy(there, 1+n, 1000+n))
		if o, err := here.Lookup(t.Context(), 1+n, 1000+n); err != nil || o.ID != 1000+n {
			t.Fatalf("order %d: %+v, %v", n, o, err)
		}
		if n%3 == 0 {
			s.takeAll()
		}
	}
	s.takeAll()
	fail.Unless(t, fail.Of(here.Lookup(t.Context(), 999, 999)), order.ErrNotFound, "an unknown order")
	fail.NowIf(t, s.client.FlushAll(t.Context()).Err())
	fail.Unless(t, fail.Of(here.Lookup(t.Context(), 999, 999)), order.ErrUnavailable, "an order, and Redis is empty")
}
