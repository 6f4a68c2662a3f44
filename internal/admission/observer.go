package admission

import "time"

// Observer receives what metrics are made of. Its functions are called on a buyer's
// or a voucher's way and must not block; any may be nil.
type Observer struct {
	// Decided: an Admit ended with err after waited.
	Decided func(waited time.Duration, err error)
	// Batch: a round trip for so many orders took so long and ended with err.
	Batch func(orders int, took time.Duration, err error)
	// Opened: this process found or made a voucher open, after took.
	Opened func(took time.Duration, epoch int64)
	// Closed: this process found a voucher not open any more, because of cause.
	Closed func(cause error)
}

func (o Observer) decided(waited time.Duration, err error) {
	if o.Decided != nil {
		o.Decided(waited, err)
	}
}

func (o Observer) batch(orders int, took time.Duration, err error) {
	if o.Batch != nil {
		o.Batch(orders, took, err)
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
