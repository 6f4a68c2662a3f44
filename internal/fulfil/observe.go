package fulfil

import "time"

// Observer receives what metrics are made of. Its functions are called on the workers'
// way and must not block; any may be nil.
type Observer struct {
	// Batch: size orders were offered to the database in one transaction, which took
	// so long and ended with err (nil: all of them are decided).
	Batch func(size int, took time.Duration, err error)
	// Persisted: an order was confirmed so long after it was accepted, by the clocks of
	// Redis and of this process.
	Persisted func(after time.Duration)
	// DeadLetter: an accepted order was rejected, or an entry that is none removed.
	DeadLetter func(reason Reason)
	// Claimed: n entries were taken over from a consumer that had them for too long.
	Claimed func(n int)
	// Backlog: so many entries are in the streams of all vouchers, and the oldest has
	// been there for so long, by the clock of Redis. Told every DiscoverEvery.
	Backlog func(entries int64, oldest time.Duration)
}

func (o Observer) batch(size int, took time.Duration, err error) {
	if o.Batch != nil {
		o.Batch(size, took, err)
	}
}

func (o Observer) persisted(after time.Duration) {
	if o.Persisted != nil {
		o.Persisted(after)
	}
}

func (o Observer) deadLetter(reason Reason) {
	if o.DeadLetter != nil {
		o.DeadLetter(reason)
	}
}

func (o Observer) claimed(n int) {
	if o.Claimed != nil && n > 0 {
		o.Claimed(n)
	}
}

func (o Observer) backlog(entries int64, oldest time.Duration) {
	if o.Backlog != nil {
		o.Backlog(entries, oldest)
	}
}

// Reason is why an entry became a dead letter. The list is closed.
type Reason string

// The reasons.
const (
	Malformed      Reason = "malformed"       // the entry is no order
	AlreadyOrdered Reason = "already_ordered" // its user has another order of the voucher
	SoldOut        Reason = "sold_out"        // the database has nothing left
	StaleEpoch     Reason = "stale_epoch"     // accepted before Redis was rebuilt, and not counted there
	IDTaken        Reason = "id_taken"        // the id is that of another order
	NoVoucher      Reason = "no_voucher"      // the database has no such voucher
	Failed         Reason = "failed"          // failed again and again, in a way that was not foreseen
	Deadly         Reason = "deadly"          // ended the process that tried it, again and again
	Before         Reason = "before"          // was rejected by an earlier delivery, which got no further
)
