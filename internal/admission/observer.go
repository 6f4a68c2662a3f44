package admission

import (
	"context"
	"iter"
	"time"
)

// Observer receives what metrics and traces are made of. Its functions are called while requests wait, and must not
// block. Any of them may be nil.
type Observer struct {
	// Decided: an Admit ended with err, or a Refusal returned err. It does not say how long that took, because reading
	// the clock is not cheap compared with an answer from memory; see Queued and Batch.
	Decided func(err error)
	// Call: a round trip begins, with the orders of the requests that have these contexts. The traceparent, "" for
	// none, is kept with each order that is accepted, and reaches the consumer that persists it
	// (contract.Accepted.Trace). ended is called with the result of the round trip.
	Call func(orders iter.Seq[context.Context]) (traceparent string, ended func(err error))
	// Batch: a round trip for this many orders took so long and ended with err.
	Batch func(orders int, took time.Duration, err error)
	// Queued: a batch was taken out of its queue, and its oldest order had waited for so long. It is called once for
	// each batch; the other orders of the batch have waited for less.
	Queued func(waited time.Duration)
	// Rebalanced: a bucket without stock received stock from another one; 0 if another process was faster.
	Rebalanced func(stock int64)
	// Opened: this process found or made a voucher open, after took.
	Opened func(took time.Duration, epoch int64)
	// Closed: this process found that a voucher is not open any more.
	Closed func(cause error)
}

func (o Observer) decided(err error) {
	if o.Decided != nil {
		o.Decided(err)
	}
}

// call calls Call. If Call is nil, ended is nil.
func (o Observer) call(requests []*request) (traceparent string, ended func(err error)) {
	if o.Call == nil {
		return "", nil
	}
	return o.Call(func(yield func(context.Context) bool) {
		for _, r := range requests {
			if !yield(r.Context()) {
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

func (o Observer) rebalanced(stock int64) {
	if o.Rebalanced != nil {
		o.Rebalanced(stock)
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
