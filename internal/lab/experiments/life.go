package experiments

import (
	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// lives are the experiments about an order's life: it is paid, cancelled, expires or is refunded. No lock plays a
// part in them.
func lives() []comparison {
	own := lab.Setup{Policy: unlocked()}
	orders := []lab.Parameter{buyers(lifeBuyers, 1, 20)}
	return []comparison{
		{text: "pay-and-cancel", scenario: paidWhileCancelling, needs: realServers(), cases: []setupCase{
			{id: "cancel-state-not-asked", setup: listed(flawed.StateNotAsked, own), breaks: kinds{finding.PaidForNothing, finding.ReturnedTwice}},
			{id: "cancel-conditional", setup: own, holds: kinds{finding.PaidForNothing, finding.GivenAway, finding.ReturnedTwice}},
		}, parameters: orders},
		{text: "compensation-repeated", scenario: cancelledAgain, needs: realServers(), cases: []setupCase{
			{id: "compensation-repeated", setup: listed(flawed.StateNotAsked, own), breaks: kinds{finding.ReturnedTwice}},
			{id: "compensation-once", setup: own, holds: kinds{finding.ReturnedTwice}},
		}, parameters: orders},
		{text: "event-twice", scenario: eventsComeTwice, needs: realServers(), cases: []setupCase{
			{id: "event-handled-twice", setup: listed(flawed.EventNotRecorded, own), breaks: kinds{finding.GivenAway}},
			{id: "event-recorded", setup: own, holds: kinds{finding.GivenAway, finding.PaidForNothing}},
		}, parameters: orders},
		{text: "events-out-of-order", scenario: eventsComeReversed, needs: realServers(), cases: []setupCase{
			{id: "latest-event-wins", setup: listed(flawed.LatestEventWins, own), breaks: kinds{finding.GivenAway, finding.ReturnedTwice}},
			{id: "events-in-any-order", setup: own, holds: kinds{finding.GivenAway, finding.ReturnedTwice, finding.PaidForNothing}},
		}, parameters: orders},
		{text: "expiry", scenario: expiredWhileAway, needs: realServers(), cases: []setupCase{
			{id: "expiry-by-key-message", setup: listed(flawed.KeyMessage, own), breaks: kinds{finding.NeverReturned}},
			{id: "expiry-by-query", setup: own, holds: kinds{finding.NeverReturned, finding.ReturnedTwice}},
		}, parameters: orders},
		{text: "late-money", scenario: moneyComesLate, needs: realServers(), cases: []setupCase{
			{id: "late-money-stock-not-asked", setup: listed(flawed.StockNotAsked, own), breaks: kinds{finding.Oversold}},
			{id: "late-money-conditional", setup: own, holds: kinds{finding.Oversold, finding.PaidForNothing, finding.GivenAway}},
		}, parameters: orders},
		{text: "compensation-order", scenario: gateBeforeCommit, needs: realServers(), cases: []setupCase{
			{id: "compensation-before-commit", setup: listed(flawed.GateFirst, own), breaks: kinds{finding.Oversold}},
			{id: "compensation-after-commit", setup: own, holds: kinds{finding.Oversold, finding.PaidForNothing}},
		}, parameters: []lab.Parameter{stock(lifeBuyers, 20)}},
	}
}

// lifeBuyers is how many buyers there are, if the setup does not say.
const lifeBuyers = 3

// unlocked is the policy of a sale whose orders are placed without a lock: each of another user, one after the other.
func unlocked() voucher.Policy {
	p := voucher.DefaultPolicy()
	p.Lock = "none"
	p.Faults = []lock.Fault(nil)
	return p
}
