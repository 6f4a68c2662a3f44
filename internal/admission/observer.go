package admission

import (
	"context"
	"iter"
	"time"
)

// Observer receives what metrics are made of. Its functions are called on a buyer's
// or a voucher's way and must not block; any may be nil.
type Observer struct {
	// Decided: an Admit ended with err, or a Refusal was one. How long that took is not told,
	// as a look at the clock is not cheap for something so quick: see Queued and Batch.
	Decided func(err error)
	// Call: a round trip begins, with the orders of those who have these contexts. The
	// traceparent, "" for none, is kept with each order that it accepts and reaches whoever
	// persists it ([order.Accepted.Trace]); ended is told what came of the round trip.
	Call func(orders iter.Seq[context.Context]) (traceparent string, ended func(err error))
	// Batch: a round trip for so many orders took so long and ended with err.
	Batch func(orders int, took time.Duration, err error)
	// Queued: so long had the oldest order of a batch waited in its line when the batch
	// was taken out of it, to be decided about. Called once for each batch: the wait is
	// that of whoever waited longest, and the others' is shorter.
	Queued func(waited time.Duration)
	// Drawn: an empty bucket of a voucher drew so much from another one. 0 where somebody
	// else was faster.
	Drawn func(stock int64)
	// Opened: this process found or made a voucher open, after took.
	Opened func(took time.Duration, epoch int64)
	// Closed: this process found a voucher not open any more, because of cause.
	Closed func(cause error)
}

func (o Observer) decided(err error) {
	if o.Decided != nil {
		o.Decided(err)
	}
}

// call is Call, where somebody wants to know; else ended is nil.
func (o Observer) call(batch []*ride) (traceparent string, ended func(err error)) {
	if o.Call == nil {
		return "", nil
	}
	return o.Call(func(yield func(context.Context) bool) {
		for _, r := range batch {
			if !yield(r.ctx) {
				return
			}
		}
	})
}

func (o Observer) batch(orders int, took time.Duration, err error) {
	if o.Batch != nil {
		o.Batch(orders, took, err)
	}
}

func (o Observer) queued(waited time.Duration) {
	if o.Queued != nil {
		o.Queued(waited)
	}
}

func (o Observer) drawn(stock int64) {
	if o.Drawn != nil {
		o.Drawn(stock)
	}
}

func (o Observer) opened(took time.Duration, epoch int64) {
	if o.Opened != nil {
		o.Opened(took, epoch)
	}
}

func (o Observer) closed(cause error) {
	if o.Closed != nil {
		o.Closed(cause)
	}
}
