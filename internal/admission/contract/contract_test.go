package contract_test

import (
	"testing"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
)

// What the database has carried out has taken its unit. A late order has not yet, while it is cancelled or expired. Nor
// has the second unit of an order that was accepted again after it had given the first one back.
func TestPersisted(t *testing.T) {
	first := time.Date(2026, 1, 1, 0, 0, 0, 123_000, time.UTC)
	entries := [3]contract.Accepted{{At: first}, {At: first.Add(time.Second), Late: true}, {At: first.Add(time.Millisecond)}}
	for s, want := range map[order.Status][3]bool{ // of the first entry, of a late one, of a second one
		"": {}, order.Pending: {}, order.Rejected: {},
		order.Confirmed: {true, true, true}, order.Unpaid: {true, true, true}, order.Paid: {true, true, true},
		order.Cancelled: {true, false, false}, order.Expired: {true, false, false},
		order.Refunding: {true, true, false}, order.Refunded: {true, true, false},
	} {
		var got [3]bool
		for i, a := range entries {
			got[i] = a.PersistedAs(order.Order{Status: s, CreatedAt: first.In(time.FixedZone("", 3600))})
		}
		fail.Unequal(t, got, want, "%q: persisted", s)
	}
}

func TestEvenEpochsAreOpen(t *testing.T) {
	for epoch, want := range map[int64]bool{-2: false, 0: false, 1: false, 2: true, 3: false, 4: true} {
		fail.Unequal(t, (contract.EpochState{Epoch: epoch}).Open(), want, "epoch %d: open", epoch)
	}
}
