package order

import "time"

// Lookup is a payment that the provider is to be asked about: its own message about it may be lost.
type Lookup struct {
	OrderID   int64
	VoucherID int64
	PaymentID string
	PayBy     time.Time
	// Due is when the provider is to be asked. The process that moves it to a later time does the look-up.
	Due time.Time
}

// The pauses between two look-ups of a payment.
const (
	firstLookup    = 15 * time.Second
	shortestLookup = 5 * time.Second
	longestLookup  = 10 * time.Minute
	// afterPayBy is how long after PayBy the provider has decided what it does with the payment.
	afterPayBy = time.Second
)

// FirstLookup returns when to look up a payment that was created now. Most buyers have paid by then, and the
// provider has said so: those payments are never looked up.
func FirstLookup(now, payBy time.Time) time.Time {
	return now.Add(max(0, min(firstLookup, payBy.Sub(now)/2)))
}

// NextLookup returns when to look up a payment that is not final yet. Before payBy it waits for half of the time
// that is left to pay. So an order whose buyer has paid does not expire because a message was lost. After payBy it
// waits as long as has passed since payBy.
func NextLookup(now, payBy time.Time) time.Time {
	left := payBy.Sub(now)
	switch {
	case left > 2*shortestLookup:
		return now.Add(min(longestLookup, left/2))
	case left > shortestLookup:
		return now.Add(left - shortestLookup/2)
	case left > -afterPayBy:
		return payBy.Add(afterPayBy)
	}
	return now.Add(min(longestLookup, max(afterPayBy, -left)))
}
