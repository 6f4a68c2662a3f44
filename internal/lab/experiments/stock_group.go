package experiments

import (
	"cmp"
	"errors"
	"sync"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// twoGroups sends two groups of orders. In the first, one user has an order already. The second has more orders than
// units are left.
func twoGroups(t *lab.Trial, setup lab.Setup) {
	n := cmp.Or(setup.Stock, groupStock)
	const one, two = "group 1", "group 2"
	s := newShop(t, setup, n, actor(one), actor(two))
	s.refused = []int64{}
	group := func(lane string, first, size int) (placed int) {
		s.step(lane, finding.Notes, i18n.F("%d orders", size), false)
		var orders []order.Order
		for i := range size {
			orders = append(orders, s.newOrder(int64(first+i)))
		}
		placed = s.placeGroup(orders)
		left := int(s.evidence().Audit.Stock)
		switch {
		case placed > 0:
			s.step(lane, finding.Notes, i18n.F("%d of %d orders placed", placed, size), false)
			s.mark(s.engine, finding.WritesStock, i18n.F("stock %d", left), false)
		default:
			s.step(lane, finding.Refuses, i18n.F("all %d orders refused", size), left > 0)
			s.mark(s.engine, finding.Refuses, i18n.F("rolled back, stock %d", left), false)
		}
		return placed
	}
	s.Must(s.take(s.newOrder(1)))
	s.mark(s.engine, finding.Notes, i18n.F("stock %d; user 1 has an order", n-1), false)
	inOne := group(one, 1, n/2+1) // user 1 orders once more
	inTwo := group(two, 101, n)
	s.finish(finding.Undersold, func(found int, _ judge.Evidence) i18n.Text {
		return i18n.F("One of the %d orders of group 1 is the second one of its user: %d are placed. The %d orders of group 2 are more than what is left: %d are placed. Units that nobody has: %d.",
			n/2+1, inOne, n, inTwo, found)
	}, func(int, judge.Evidence) i18n.Text {
		return i18n.F("One of the %d orders of group 1 is the second one of its user: the %d others are placed. The %d orders of group 2 are more than what is left: %d are placed, and all is sold.",
			n/2+1, inOne, n, inTwo)
	})
}

// placeGroup places orders that arrive together with the program of the setup, and returns how many it has placed.
func (s *shop) placeGroup(orders []order.Order) (placed int) {
	if s.program == flawed.OneForAll {
		if err := s.programs.PlaceTogether(s.Context(), orders); err != nil { // whatever it is, it is the answer to all of them
			s.Must(s.Context().Err())
			for _, o := range orders {
				s.refused = append(s.refused, o.UserID)
			}
			return 0
		}
		return len(orders)
	}
	var mu sync.Mutex
	var answered []func()
	for _, o := range orders {
		answered = append(answered, s.Go(func() {
			_, err := s.db.Orders().PlaceGrouped(s.Context(), o, 0) // nobody has changed the voucher
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, voucher.ErrSoldOut) || errors.Is(err, order.ErrAlreadyOrdered):
				s.refused = append(s.refused, o.UserID)
			default:
				s.Must(err)
				placed++
			}
		}))
	}
	for _, wait := range answered {
		wait()
	}
	return placed
}
