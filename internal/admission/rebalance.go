package admission

import (
	"context"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/voucher"
)

// A bucket without stock takes half of the stock of the bucket that has most, in two steps: give.lua takes the stock
// out there, take.lua adds it here. Both buckets keep the total of what was given and received, so each step may be
// repeated, may arrive late, or may be lost with the process that was at it: any process that reads the buckets sees
// what is in transit and can finish the transfer. Halving keeps the transfers few: a bucket that gets all the buyers
// has the whole stock n of another bucket after log n transfers.

// turn is the right to rebalance. In one process, one bucket of a voucher rebalances at a time. It keeps the turn until
// it has sold some of the stock that it received, so that buckets do not take the last unit from each other.
type turn struct{ of *voucherState }

// begin waits for the turn, unless it is held already.
func (t *turn) begin(ctx context.Context, v *voucherState) error {
	if t.of != nil {
		return nil
	}
	select {
	case v.rebalancing <- struct{}{}:
		t.of = v
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end gives the turn back, if it is held.
func (t *turn) end() {
	if t.of != nil {
		<-t.of.rebalancing
		t.of = nil
	}
}

// rebalance finds stock for a bucket that has none. If it returns nil, the bucket has stock, or had some a moment ago,
// and holds the turn. The error is [voucher.ErrSoldOut] if no bucket has stock and none is in transit. Any other error
// says why that is not known.
func (v *voucherState) rebalance(ctx context.Context, b *bucket, epoch int64, t *turn) error {
	if err := t.begin(ctx, v); err != nil {
		return err
	}
	for {
		found, err := v.rebalanceOnce(ctx, b, epoch)
		if found {
			return nil
		}
		if err == nil { // the stock has moved meanwhile: read the buckets again
			err = ctx.Err()
		}
		if err != nil {
			t.end()
			return err
		}
	}
}

// rebalanceOnce reads the buckets once and takes the next step. If it finds nothing and returns no error, the buckets
// are to be read again.
func (v *voucherState) rebalanceOnce(ctx context.Context, b *bucket, epoch int64) (found bool, err error) {
	read := v.now()
	if int64(read) < v.soldOutUntil.Load() {
		return false, voucher.ErrSoldOut // as another bucket has found
	}
	all := v.quickStates(ctx, b)
	mine := &all[b.number]
	if mine.Err != nil {
		return false, mine.Err
	}
	for i := range all {
		if s := &all[i]; s.Err == nil && (s.Epoch != epoch || !s.Open()) {
			return false, v.markClosed(b, epoch, ledger.Closed)
		}
	}
	switch lost, err := lostTransfer(all, func() []ledger.State { return v.quickStates(ctx, b) }); {
	case err != nil:
		return false, err
	case lost:
		return false, v.markClosed(b, epoch, ledger.DataLost)
	case mine.Stock > 0: // given back, or received by another process
		return true, nil
	}
	richest := -1
	for i := range all {
		switch s := &all[i]; {
		case s.Err != nil:
		case s.To[b.number] > mine.From[i]: // given to this bucket and not received yet
			return v.finishTransfer(ctx, v.buckets[i], b, s.To[b.number], epoch)
		case s.Stock > 0 && (richest < 0 || s.Stock > all[richest].Stock):
			richest = i
		}
	}
	if richest >= 0 {
		total, err := v.give(ctx, v.buckets[richest], b, epoch, true)
		if err != nil || total <= mine.From[richest] {
			return false, err
		}
		return v.take(ctx, b, richest, total, epoch)
	}
	return false, v.confirmSoldOut(ctx, all, epoch, read)
}

// quickStates reads the buckets for rebalancing. No other bucket can rebalance meanwhile, so it does not wait for long,
// and skips buckets whose node did not answer a moment ago.
func (v *voucherState) quickStates(ctx context.Context, mine *bucket) []ledger.State {
	now, some := int64(v.now()), make([]*bucket, 0, len(v.buckets))
	for _, b := range v.buckets {
		if b == mine || b.unreachableUntil.Load() <= now {
			some = append(some, b)
		}
	}
	return v.statesOf(ctx, v.config.AttemptTimeout/4, some)
}

// confirmSoldOut finds out whether the voucher is sold out, after no bucket was found with stock.
func (v *voucherState) confirmSoldOut(ctx context.Context, all []ledger.State, epoch int64, read time.Duration) error {
	finished, err := v.finishTransfers(ctx, all, epoch)
	if err != nil || finished {
		return err
	}
	if err := firstError(all); err != nil {
		return err
	}
	var left int64
	for i := range all {
		left += all[i].Share()
	}
	if left > 0 {
		return nil // it was transferred while the buckets were read
	}
	v.markSoldOut(read)
	return voucher.ErrSoldOut
}

// finishTransfers finishes all transfers whose stock is in transit. If another process is finishing one of them, that
// does no harm; it may also have died while it did.
func (v *voucherState) finishTransfers(
	ctx context.Context, all []ledger.State, epoch int64,
) (finished bool, err error) {
	for from := range all {
		for to, total := range all[from].To {
			if to >= len(all) || all[to].Err != nil || total <= all[to].From[from] {
				continue
			}
			if _, err := v.finishTransfer(ctx, v.buckets[from], v.buckets[to], total, epoch); err != nil {
				return finished, err
			}
			finished = true
		}
	}
	return finished, nil
}

// finishTransfer has a bucket receive what another bucket gave to it. If the gate waits for replicas, it makes sure
// that they know what was given.
func (v *voucherState) finishTransfer(ctx context.Context, from, to *bucket, total, epoch int64) (bool, error) {
	if v.config.WaitReplicas > 0 {
		var err error
		if total, err = v.give(ctx, from, to, epoch, false); err != nil {
			return false, err
		}
	}
	return v.take(ctx, to, from.number, total, epoch)
}

// give has a bucket give stock to another bucket; without more it gives nothing. It returns the total that the bucket
// has given to the other one.
func (v *voucherState) give(ctx context.Context, from, to *bucket, epoch int64, more bool) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, v.config.AttemptTimeout)
	defer cancel()
	t, err := v.ledger.Give(ctx, from.keys, epoch, to.number, more)
	switch {
	case err != nil:
		return 0, err
	case t.Verdict != ledger.Decided:
		return 0, v.markClosed(to, epoch, t.Verdict)
	}
	from.observeSeq(epoch, t.Seq)
	return t.Amount, nil
}

// take has a bucket receive what another bucket gave to it.
func (v *voucherState) take(ctx context.Context, to *bucket, from int, total, epoch int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, v.config.AttemptTimeout)
	defer cancel()
	t, err := v.ledger.Take(ctx, to.keys, epoch, from, total)
	switch {
	case err != nil:
		return false, err
	case t.Verdict != ledger.Decided:
		return false, v.markClosed(to, epoch, t.Verdict)
	}
	to.observeSeq(epoch, t.Seq)
	v.config.Observer.rebalanced(t.Amount)
	return true, nil // if another process was faster, the stock is here too
}
