package order_test

import (
	"slices"
	"testing"

	"seckill/internal/order"
	"seckill/internal/testkit/fail"
)

func TestMoves(t *testing.T) {
	reached := map[order.Status]bool{order.Pending: true}
	for _, m := range order.Moves() {
		if got, err := order.MoveOf(m.From, m.To); err != nil || got != m {
			t.Errorf("MoveOf(%s, %s) = %+v, %v", m.From, m.To, got, err)
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
		if _, err := order.MoveOf(wrong[0], wrong[1]); err == nil {
			t.Errorf("an order may move from %s to %s", wrong[0], wrong[1])
		}
	}
}

// On every way through the table an order takes one voucher at most, and gives back what it took.
func TestMovesKeepTheStock(t *testing.T) {
	var walk func(at order.Status, has int64, steps int)
	walk = func(at order.Status, has int64, steps int) {
		if want := int64(0); has != want && !at.Live() && at != order.Pending {
			t.Errorf("an order that is %s has %d vouchers", at, has)
		}
		if at.Live() && has != 1 {
			t.Errorf("an order that is %s has %d vouchers", at, has)
		}
		for _, m := range order.Moves() {
			if m.From == at && steps < 8 {
				walk(m.To, has-m.Stock(), steps+1)
			}
		}
	}
	walk(order.Pending, 0, 0)
	walk(order.Unpaid, 1, 0) // under the locked flow
}

// What the database has carried out has taken its voucher. A late order has not yet, while it is cancelled or expired.
func TestPersisted(t *testing.T) {
	for s, want := range map[order.Status][2]bool{ // of a new order and of a late one
		"": {}, order.Pending: {}, order.Rejected: {}, order.Cancelled: {true, false}, order.Expired: {true, false},
		order.Confirmed: {true, true}, order.Unpaid: {true, true}, order.Paid: {true, true}, order.Refunding: {true, true}, order.Refunded: {true, true},
	} {
		fail.Unequal(t, [2]bool{order.Accepted{}.PersistedAs(s), order.Accepted{Late: true}.PersistedAs(s)}, want, "%q: persisted", s)
	}
}

func TestEvenEpochsAreOpen(t *testing.T) {
	for epoch, want := range map[int64]bool{-2: false, 0: false, 1: false, 2: true, 3: false, 4: true} {
		fail.Unequal(t, (order.EpochState{Epoch: epoch}).Open(), want, "epoch %d: open", epoch)
	}
}
