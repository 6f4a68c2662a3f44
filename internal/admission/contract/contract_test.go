package contract_test

import (
	"testing"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
)

// What the database has carried out has taken its unit. A late order has not yet, while it is cancelled or expired.
func TestPersisted(t *testing.T) {
	for s, want := range map[order.Status][2]bool{ // of a new order and of a late one
		"": {}, order.Pending: {}, order.Rejected: {}, order.Cancelled: {true, false}, order.Expired: {true, false},
		order.Confirmed: {true, true}, order.Unpaid: {true, true}, order.Paid: {true, true}, order.Refunding: {true, true}, order.Refunded: {true, true},
	} {
		fail.Unequal(t, [2]bool{contract.Accepted{}.PersistedAs(s), contract.Accepted{Late: true}.PersistedAs(s)}, want, "%q: persisted", s)
	}
}

func TestEvenEpochsAreOpen(t *testing.T) {
	for epoch, want := range map[int64]bool{-2: false, 0: false, 1: false, 2: true, 3: false, 4: true} {
		fail.Unequal(t, (contract.EpochState{Epoch: epoch}).Open(), want, "epoch %d: open", epoch)
	}
}
