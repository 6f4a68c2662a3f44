package experiments

import (
	"cmp"
	"errors"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/voucher"
)

const administrator = "administrator"

// change changes the sale as the service does.
func (s *shop) change(c voucher.Change) {
	_, err := s.db.Vouchers().ChangeVoucher(s.Context(), s.sale.Voucher, 0, c, time.Now())
	s.Must(err)
}

// refilledWhileSelling adds units to a sale. Between reading the stock and writing it some are sold.
func refilledWhileSelling(t *lab.Trial, setup lab.Setup) {
	n := cmp.Or(setup.Stock, refillStock)
	const others = "the others"
	s := newShop(t, setup, n, actor(administrator), actor(others))
	user := int64(0)
	sell := func(most int) {
		for range most {
			user++
			err := s.take(s.newOrder(user))
			if errors.Is(err, voucher.ErrSoldOut) {
				return
			}
			s.Must(err)
		}
	}
	more, before := n/2, n/2
	seen := s.evidence().Audit
	read := s.mark(administrator, finding.ReadsStock, i18n.F("reads %d", seen.Stock), false)
	s.mark(s.engine, finding.WritesStock, i18n.F("stock %d", seen.Stock), false)
	sell(before)
	s.step(others, finding.Notes, i18n.F("%d have bought", before), false)
	s.mark(s.engine, finding.WritesStock, i18n.F("stock %d", s.evidence().Audit.Stock), false)
	var wrote float64
	if s.program == flawed.StockWritten {
		s.Must(s.programs.WriteStock(t.Context(), s.sale.Voucher, seen.Stock+int64(more), seen.InitialStock+int64(more)))
		wrote = s.step(administrator, finding.WritesStock, i18n.F("writes %d", seen.Stock+int64(more)), true)
	} else {
		s.change(voucher.Change{AddStock: int64(more), By: voucher.Author{Name: "lab"}})
		wrote = s.step(administrator, finding.WritesStock, i18n.F("stock + %d", more), false)
	}
	s.mark(s.engine, finding.WritesStock, i18n.F("stock %d", s.evidence().Audit.Stock), s.program == flawed.StockWritten)
	sell(2 * (n + more))
	orders := s.evidence().Audit.Orders
	s.step(others, finding.Notes, i18n.F("%d have bought", orders), false)
	s.mark(s.engine, finding.Notes, i18n.F("order %d of %d", orders, n+more), orders > int64(n+more))
	s.finish(finding.Oversold, func(_ int, ev judge.Evidence) i18n.Text {
		return i18n.F("The administrator reads a stock of %d at %s. %d units are sold. At %s the administrator writes %d more than was read, and the units that were sold are on sale again: %d orders for %d units.",
			seen.Stock, moment(read), before, moment(wrote), more, ev.Audit.Orders, n+more)
	}, func(_ int, ev judge.Evidence) i18n.Text {
		return i18n.F("The administrator sees a stock of %d at %s. %d units are sold. At %s the statement adds %d to what is left by then: %d orders for %d units.",
			seen.Stock, moment(read), before, moment(wrote), more, ev.Audit.Orders, n+more)
	})
}

// pausedAndRestarted pauses a sale, kills Redis, which has nothing on disk, and has the gate opened again from the
// database.
func pausedAndRestarted(t *lab.Trial, setup lab.Setup) {
	n := cmp.Or(setup.Stock, refillStock)
	const others = "the others"
	server := t.OwnRedis()
	s := newGateShop(t, setup, n, server.Client(t), actor(administrator), actor(others))
	user := int64(0)
	buy := func(many int) (accepted int) {
		for range many {
			user++
			if _, err := s.gate.Accept(t.Context(), s.newOrder(user), true); !errors.Is(err, voucher.ErrPaused) {
				s.Must(err)
				accepted++
			}
		}
		s.work()
		return accepted
	}
	half := n / 2
	buy(half)
	s.mark(others, finding.Notes, i18n.F("%d have bought", half), false)
	if setup.Program == "" {
		on := true
		s.change(voucher.Change{Paused: &on, By: voucher.Author{Name: "lab"}})
	}
	s.Must(s.gate.Pause(t.Context()))
	paused := s.step(administrator, finding.Notes, i18n.F("pauses the sale"), false)
	if setup.Program == "" {
		s.mark(s.engine, finding.WritesStock, i18n.F("paused"), false)
	}
	s.mark(laneRedis, finding.Notes, i18n.F("paused"), false)
	if sold := buy(1); sold > 0 {
		t.Fatalf("the gate has accepted an order while the sale is paused")
	}
	s.step(others, finding.Refuses, i18n.F("is told: paused"), false)

	server.Restart()
	restarted := s.step(laneRedis, finding.Killed, i18n.F("restarts empty"), false)
	known, err := s.db.Vouchers().Voucher(t.Context(), s.sale.Voucher)
	s.Must(err)
	s.Must(s.gate.Open(t.Context(), int(known.Stock)))
	label := i18n.F("open: stock %d", known.Stock)
	if known.Paused {
		s.Must(s.gate.Pause(t.Context()))
		label = i18n.F("open: stock %d, paused", known.Stock)
	}
	s.step(laneRedis, finding.Notes, label, !known.Paused)
	sold := buy(n - half)
	if sold > 0 {
		s.step(others, finding.Notes, i18n.F("%d are accepted", sold), true)
	} else {
		s.step(others, finding.Refuses, i18n.F("%d are told: paused", n-half), false)
	}
	t.Found(finding.SoldWhilePaused, sold)
	ev := s.evidence()
	s.mark(s.engine, finding.WritesStock, i18n.F("orders: %d of %d", ev.Audit.Orders, n), sold > 0)
	if sold > 0 {
		t.Witness(s.witness(finding.SoldWhilePaused, i18n.F("The administrator pauses the sale in Redis at %s. Redis restarts empty at %s, and is filled from the database, which knows of no pause: %d orders are accepted.",
			moment(paused), moment(restarted), sold)))
	} else {
		t.Witness(s.witness("", i18n.F("The administrator pauses the sale at %s, in the database first. Redis restarts empty at %s, and is filled from the database, the pause included: no order is accepted.",
			moment(paused), moment(restarted))))
	}
	t.Judge(ev)
}
