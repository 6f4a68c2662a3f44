package order_test

import (
	"slices"
	"testing"

	"seckill/internal/order"
	"seckill/internal/testkit/fail"
)

func TestMoves(t *testing.T) {
	reached := map[order.Status]bool{order.Pending: true}
	for _, m := range order.Transitions() {
		if got, err := order.TransitionOf(m.From, m.To); err != nil || got != m {
			t.Errorf("TransitionOf(%s, %s) = %+v, %v", m.From, m.To, got, err)
		}
		if !slices.Contains(order.Statuses(), m.From) || !slices.Contains(order.Statuses(), m.To) {
			t.Errorf("%+v has an unknown state", m)
		}
		reached[m.To] = true
		if m.From.Changes() == (m.From == order.Cancelled || m.From == order.Expired || m.From == order.Paid) {
			t.Errorf("%s: Changes is %t", m.From, m.From.Changes())
		}
	}
	fail.Unequal(t, len(reached), len(order.Statuses()), "of %d states are reached", len(order.Statuses()))
	for _, wrong := range [][2]order.Status{{order.Paid, order.Cancelled}, {order.Expired, order.Unpaid}, {order.Refunded, order.Paid}, {order.Confirmed, order.Cancelled}} {
		if _, err := order.TransitionOf(wrong[0], wrong[1]); err == nil {
			t.Errorf("an order may move from %s to %s", wrong[0], wrong[1])
		}
	}
}

// On every way through the table an order takes one unit at most, and gives back what it took.
func TestMovesKeepTheStock(t *testing.T) {
	var walk func(at order.Status, has int64, steps int)
	walk = func(at order.Status, has int64, steps int) {
		if want := int64(0); has != want && !at.Live() && at != order.Pending {
			t.Errorf("an order that is %s has %d units", at, has)
		}
		if at.Live() && has != 1 {
			t.Errorf("an order that is %s has %d units", at, has)
		}
		for _, m := range order.Transitions() {
			if m.From == at && steps < 8 {
				walk(m.To, has-m.Stock(), steps+1)
			}
		}
	}
	walk(order.Pending, 0, 0)
	walk(order.Unpaid, 1, 0) // under the locked flow
}
