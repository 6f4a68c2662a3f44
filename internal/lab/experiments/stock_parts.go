package experiments

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// errDeclined ends an order that has taken a unit, as a payment does that is declined.
var errDeclined = errors.New("the payment is declined")

// lastUnitsInHand has a buyer for each unit take it in a transaction, which is open when as many others come, and is then
// rolled back.
func lastUnitsInHand(t *lab.Trial, setup lab.Setup) {
	n := cmp.Or(setup.Stock, lifecycleBuyers)
	const early, later = "first buyers", "second buyers"
	s := newShop(t, setup, n, actor(early), actor(later))
	s.refused = []int64{}
	taken, decline := make(chan struct{}, n), make(chan struct{})
	var ends []func()
	for unit := range int64(n) {
		ends = append(ends, t.Go(func() { s.takeAndFail(unit, taken, decline) }))
	}
	for range n {
		select {
		case <-taken:
		case <-t.Context().Done():
			t.Fatalf("the first buyers take the units: %w", context.Cause(t.Context()))
		}
	}
	s.mark(early, finding.Notes, i18n.F("have the %d units", n), false)
	s.mark(s.engine, finding.Notes, i18n.F("%d rows locked", n), false)
	came := s.step(later, finding.ReadsStock, i18n.F("look for a unit"), false)

	soldOut := make(chan int64, n)
	var others []func()
	for user := range int64(n) {
		others = append(others, t.Go(func() {
			if !s.buyFromParts(s.newOrder(int64(n) + user + 1)) {
				soldOut <- int64(n) + user + 1
			}
		}))
	}
	if setup.Program == flawed.LockedIsSold { // the others wait for what comes next
		s.refused = s.answers(others, soldOut)
		s.step(later, finding.Refuses, i18n.F("%d are told: sold out", len(s.refused)), true)
	} else {
		s.Sleep(apart)
	}
	close(decline)
	for _, ended := range ends {
		ended()
	}
	declined := s.step(early, finding.Refuses, i18n.F("are declined"), false)
	s.mark(s.engine, finding.Notes, i18n.F("rolled back"), false)
	if setup.Program == "" {
		s.refused = s.answers(others, soldOut)
		s.step(later, finding.Notes, i18n.F("%d buy", n-len(s.refused)), false)
	}
	left := s.evidence().Audit.Stock
	s.mark(s.engine, finding.WritesStock, i18n.F("stock %d", left), left > 0)
	s.finish(finding.Undersold, func(found int, ev judge.Evidence) i18n.Text {
		return i18n.F("All %d units are in the open transactions of others when buyers come at %s. SKIP LOCKED finds no row, and they are told that all is sold. "+
			"At %s the transactions are rolled back. Orders: %d; units that nobody has: %d.", n, moment(came), moment(declined), ev.Audit.Orders, found)
	}, func(_ int, ev judge.Evidence) i18n.Text {
		return i18n.F("All %d units are in the open transactions of others when buyers come at %s. SKIP LOCKED finds no row, but a look at the stock finds units, and the buyers wait for them. "+
			"The transactions are rolled back by %s. Orders: %d.", n, moment(came), moment(declined), ev.Audit.Orders)
	})
}

// takeAndFail takes a unit, says so, and gives it back when its payment is declined. It looks from that unit on, so that
// everybody finds one.
func (s *shop) takeAndFail(unit int64, taken chan<- struct{}, decline <-chan struct{}) {
	err := s.db.Orders().Transact(s.Context(), func(ctx context.Context, tx order.Tx) error {
		if err := errors.Join(tx.TakeUnit(ctx, s.sale.Voucher, unit), tx.Flush(ctx)); err != nil {
			return err
		}
		taken <- struct{}{}
		select {
		case <-decline:
			return errDeclined
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if !errors.Is(err, errDeclined) {
		s.Must(err)
		s.Fatalf("an order was placed whose payment is declined")
	}
}

// answers waits until all buyers have their answers, and returns those who are told that all is sold.
func (s *shop) answers(buyers []func(), soldOut chan int64) []int64 {
	for _, answered := range buyers {
		answered()
	}
	close(soldOut)
	refused := []int64{}
	for user := range soldOut {
		refused = append(refused, user)
	}
	return refused
}

// buyFromParts places an order with the program of the setup, and reports false if its buyer is told that all is sold.
func (s *shop) buyFromParts(o order.Order) (placed bool) {
	var err error
	switch s.program {
	case flawed.LockedIsSold:
		err = s.programs.TakeUnlocked(s.Context(), o)
	case flawed.OwnCounter:
		err = s.programs.TakeFromCounter(s.Context(), o, s.firstPart(o.UserID))
	default:
		err = s.take(o)
	}
	if errors.Is(err, voucher.ErrSoldOut) {
		return false
	}
	s.Must(err)
	return true
}

// crowdAtCounters has a buyer come for each unit. Their ids are as random as those of a crowd.
func crowdAtCounters(t *lab.Trial, setup lab.Setup) {
	n := cmp.Or(setup.Stock, counterStock)
	crowd := rand.New(rand.NewPCG(uint64(t.Seed()), 0x63726f7764)) // the second word separates it from other uses of the seed
	users := make([]int64, n)
	for i := range users {
		users[i] = int64(1_000*(i+1)) + crowd.Int64N(1_000)
	}
	const others, turned = "the others", "another buyer"
	s := newShop(t, setup, n, actor(others), actor(turned))
	s.refused = []int64{}
	s.mark(s.engine, finding.Notes, i18n.F("16 counters, %d units", n), false)
	var empty float64
	for i, user := range users {
		if s.buyFromParts(s.newOrder(user)) {
			continue
		}
		if s.refused = append(s.refused, user); len(s.refused) > 1 {
			continue
		}
		s.step(others, finding.Notes, i18n.F("%d have bought", i), false)
		empty = s.step(turned, finding.Refuses, i18n.F("its counter: 0, is told: sold out"), true)
		s.mark(s.engine, finding.Notes, i18n.F("stock %d", s.evidence().Audit.Stock), true)
	}
	ev := s.evidence()
	s.step(others, finding.Notes, i18n.F("%d have bought", ev.Audit.Orders), false)
	s.mark(s.engine, finding.WritesStock, i18n.F("stock %d", ev.Audit.Stock), ev.Audit.Stock > 0)
	s.finish(finding.Undersold, func(found int, _ judge.Evidence) i18n.Text {
		return i18n.F("The counter of a buyer is empty at %s, and the buyer is told that all is sold, while other counters have units. In the end %d of %d buyers were told so, "+
			"and %d units are left in counters at which nobody has asked.", moment(empty), len(s.refused), n, found)
	}, func(_ int, ev judge.Evidence) i18n.Text {
		return i18n.F("A buyer whose counter is empty looks at all of them, and takes a unit from another one: %d buyers, %d units, %d orders.", n, n, ev.Audit.Orders)
	})
}
