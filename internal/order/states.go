package order

import "fmt"

// Status is the state of an order.
type Status string

// The states of an order. The first three are all there is of an order of a voucher without payment.
const (
	Pending   Status = "pending"   // accepted by the gate, not in the database yet
	Confirmed Status = "confirmed" // sold; nothing is to be paid
	Rejected  Status = "rejected"  // accepted by the gate, and refused by the database

	Unpaid    Status = "unpaid"    // has a unit until it is to be paid
	Paid      Status = "paid"      // sold
	Cancelled Status = "cancelled" // given back by the buyer before it was paid
	Expired   Status = "expired"   // not paid in time
	Refunding Status = "refunding" // given back after it was paid; the money is on its way back
	Refunded  Status = "refunded"  // the provider has returned the money
)

// Statuses lists the states.
func Statuses() []Status {
	return []Status{Pending, Confirmed, Rejected, Unpaid, Paid, Cancelled, Expired, Refunding, Refunded}
}

// Actor is who may move an order from one state to another.
type Actor string

// The actors.
const (
	ByWorker   Actor = "worker"   // what persists accepted orders
	ByBuyer    Actor = "buyer"    // the order's user
	ByProvider Actor = "provider" // the payment provider, with its signed events and its answers
	ByClock    Actor = "clock"    // the passing of the order's time to pay
	ByAdmin    Actor = "admin"    // the administrator
)

// Transition is a row of the table of transitions.
type Transition struct {
	From, To Status
	By       Actor
}

// transitions is the table of transitions: an order moves in these ways and in no other. Each is one
// conditional statement in the database (… WHERE id = ? AND status = ?), in the transaction that also does
// what follows from it: the stock, the buyer's right to order again, the history, the money to return.
//
// An order enters as Pending under the admission flow. Under the locked flow it enters as Confirmed or, if
// the voucher asks for payment, as Unpaid.
var transitions = []Transition{
	{Pending, Confirmed, ByWorker},
	{Pending, Unpaid, ByWorker},
	{Pending, Rejected, ByWorker},
	{Unpaid, Paid, ByProvider},
	{Unpaid, Cancelled, ByBuyer},
	{Unpaid, Expired, ByClock},
	{Cancelled, Paid, ByProvider}, // money that arrives late, if a unit is left; see LateStore
	{Expired, Paid, ByProvider},   // the same
	{Paid, Refunding, ByAdmin},
	{Refunding, Refunded, ByProvider},
}

// TransitionOf returns the row of the table for a transition. The error is a fault of the program.
func TransitionOf(from, to Status) (Transition, error) {
	for _, t := range transitions {
		if t.From == from && t.To == to {
			return t, nil
		}
	}
	return Transition{}, fmt.Errorf("order: no order moves from %q to %q", from, to)
}

// Stock is what the transition adds to the stock: 1 where a unit goes back, -1 where one is taken. A pending
// order has taken from the gate's stock; the database's follows when the order is written.
func (t Transition) Stock() int64 {
	switch {
	case t.From.Live() && !t.To.Live():
		return 1
	case !t.From.Live() && t.To.Live():
		return -1
	}
	return 0
}

// Live reports whether an order in this state has a unit: it counts against the stock, and its user has
// no other live order.
func (s Status) Live() bool { return s == Confirmed || s == Unpaid || s == Paid }

// Persisted reports whether the database has carried out an accepted order, now or earlier. Whatever became
// of the order afterwards, it has taken its unit then.
func (s Status) Persisted() bool { return s != "" && s != Pending && s != Rejected }

// Changes reports whether a buyer may wait for the next state. An order that is cancelled or expired changes
// only if money arrives late, for which nobody waits.
func (s Status) Changes() bool { return s == Pending || s == Unpaid || s == Refunding }
