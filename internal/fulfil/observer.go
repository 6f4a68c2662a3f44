package fulfil

import "time"

// Observer receives the values of the metrics. The workers call its functions, which must not block. Any of them may be
// nil.
type Observer struct {
	// Batch is called after each transaction: size orders were offered to the database, it took this long and ended
	// with err. nil means that all of them are decided.
	Batch func(size int, took time.Duration, err error)
	// Persisted is called for each confirmed order, with the time since its acceptance. It compares the clocks of Redis
	// and of this process.
	Persisted func(after time.Duration)
	// DeadLetter is called when an accepted order was rejected, or a malformed entry removed.
	DeadLetter func(reason Reason)
	// Claimed is called when n entries were claimed from another consumer.
	Claimed func(n int)
	// Backlog is called every DiscoverEvery with the number of entries in the streams of all vouchers and the age of
	// the oldest one, by the clock of Redis.
	Backlog func(entries int64, oldest time.Duration)
	// Outage is called for each further failure while the database takes no orders, with the beginning of the outage
	// and the latest error; and at its end with zero and nil.
	Outage func(since time.Time, err error)
	// RetryQueue is called with the number of entries in the retry queues of this process when it has changed.
	RetryQueue func(entries int64)
}

// withDefaults returns an observer whose functions can all be called.
func (o Observer) withDefaults() Observer {
	if o.Batch == nil {
		o.Batch = func(int, time.Duration, error) {}
	}
	if o.Persisted == nil {
		o.Persisted = func(time.Duration) {}
	}
	if o.DeadLetter == nil {
		o.DeadLetter = func(Reason) {}
	}
	if o.Claimed == nil {
		o.Claimed = func(int) {}
	}
	if o.Backlog == nil {
		o.Backlog = func(int64, time.Duration) {}
	}
	if o.Outage == nil {
		o.Outage = func(time.Time, error) {}
	}
	if o.RetryQueue == nil {
		o.RetryQueue = func(int64) {}
	}
	return o
}

// Reason is why an entry became a dead letter. The list is closed.
type Reason string

// The reasons.
const (
	Malformed      Reason = "malformed"       // the entry is not an order
	AlreadyOrdered Reason = "already_ordered" // the user has another order of the voucher
	SoldOut        Reason = "sold_out"        // the database has no stock left
	StaleEpoch     Reason = "stale_epoch"     // accepted before Redis was rebuilt, and not counted in the rebuild
	FutureEpoch    Reason = "future_epoch"    // of an epoch that neither the database nor Redis has: no script wrote the entry
	IDTaken        Reason = "id_taken"        // another order has the id
	Failed         Reason = "failed"          // the database objected repeatedly, and took others in between
	Deadly         Reason = "deadly"          // the process crashed repeatedly with it, after others were written
	Before         Reason = "before"          // the order's row says so: an earlier delivery stopped before the dead letter, or the order is over
)
