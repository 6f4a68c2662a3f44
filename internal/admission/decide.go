package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"seckill/internal/admission/batch"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

var _ batch.Processor[pendingOrder] = (*bucket)(nil)

// Ready implements [batch.Processor].
func (b *bucket) Ready() bool { return b.knownState().Epoch != 0 }

// AwaitReady implements [batch.Processor]: it opens the voucher.
func (b *bucket) AwaitReady() error {
	if _, err := b.voucher.awaitOpen(context.Background(), b, b.voucher.config.OpenWait); err != nil {
		return notAdmitted(err)
	}
	return nil
}

// Process implements [batch.Processor].
func (b *bucket) Process(requests []*request) error {
	b.voucher.config.Observer.queued(b.voucher.now() - requests[0].Value.arrived)
	return b.decide(requests)
}

// The pauses between the attempts at one batch.
const (
	firstPause = 5 * time.Millisecond
	maxPause   = 200 * time.Millisecond
)

// decide finds out about every order of a batch. If it cannot, it returns the error that it has
// given to the requests.
//
// If the reply of an attempt is lost, the attempt may still act until its expiry. Until then the
// requests of the batch are in doubt: nobody is refused, and the same batch is sent again.
func (b *bucket) decide(requests []*request) error {
	v := b.voucher
	// Neither the requests' contexts nor the end of the gate end this one: what was sent is decided,
	// and the requests must be told.
	ctx, cancel := context.WithTimeout(context.Background(), v.config.DecisionTimeout)
	defer cancel()
	left := slices.Clone(requests)
	var rebalancing turn
	defer rebalancing.end()
	var doubt int64 // until when an earlier attempt may act, by Redis' clock
	var tried bool  // an earlier attempt may have acted
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		known, err := v.awaitOpen(ctx, b, v.config.openWait(tried))
		if err != nil {
			return giveUp(left, err, tried)
		}
		if left = slices.DeleteFunc(left, func(r *request) bool { return !r.MarkSent() }); len(left) == 0 {
			return nil
		}
		d, expiry, err := b.attempt(ctx, known, left)
		rebalancing.end()
		switch {
		case errors.Is(err, ledger.ErrUnacknowledged): // this attempt has acted
			b.observeDecision(left, d, known.Epoch, tried)
			tried = true
			if left, _ = b.answer(left, d, doubt, false); len(left) == 0 {
				return nil
			}
		case err != nil:
			if !ledger.Harmless(err) {
				doubt, tried = max(doubt, expiry), true
			}
		case d.Verdict == ledger.Decided:
			b.observeDecision(left, d, known.Epoch, tried)
			var short bool
			if left, short = b.answer(left, d, doubt, true); len(left) == 0 {
				return nil
			}
			if short {
				err = v.rebalance(ctx, b, known.Epoch, &rebalancing)
			}
			switch {
			case short && err == nil:
				pause = firstPause
				continue // decide again at once
			case short && !errors.Is(err, voucher.ErrSoldOut):
				// It is not known whether there is stock.
			case d.Now > doubt:
				batch.AnswerAll(left, voucher.ErrSoldOut)
				return nil
			default:
				err, pause = errInDoubt, max(firstPause, time.Duration(doubt-d.Now)*time.Millisecond)
			}
		case d.Verdict == ledger.Late:
			err = errLate
		default:
			err = v.markClosed(b, known.Epoch, d.Verdict)
		}
		if !tried { // no attempt has acted: requests whose contexts end may leave
			batch.UnmarkSent(left)
		}
		if !sleep(ctx, pause) {
			return giveUp(left, err, tried)
		}
	}
}

// openWait is how long requests wait for a closed voucher, before or after an attempt was made.
func (c *Config) openWait(tried bool) time.Duration {
	if tried {
		return c.DecisionTimeout
	}
	return c.OpenWait
}

// giveUp answers the remaining requests. After an attempt that may have acted, their outcome is
// unknown even if the voucher is forgotten. Then the error has the cause as text only: a cause such
// as [voucher.ErrEnded] would be taken for a refusal.
func giveUp(requests []*request, cause error, tried bool) error {
	err := notAdmitted(cause)
	if tried {
		err = fmt.Errorf("%w: %s", order.ErrUnavailable, cause.Error())
	}
	batch.AnswerAll(requests, err)
	return err
}

// attempt asks Redis once. It also returns until when the call may act, by Redis' clock. The bucket
// was open, so Redis' clock is known.
func (b *bucket) attempt(ctx context.Context, known ledger.Known, requests []*request) (ledger.Decision, int64, error) {
	v := b.voucher
	ctx, cancel := context.WithTimeout(ctx, v.config.AttemptTimeout)
	defer cancel()
	asked := v.now()
	expiry := b.clock.Load().at(asked) + v.config.AttemptTimeout.Milliseconds()
	b.wakeWorkers(asked)
	call := ledger.NewBatch(len(requests))
	call.Keys, call.Known, call.MaxPending, call.Expiry = b.keys, known, v.maxPending(), expiry
	call.PerEntry = v.config.OrdersPerEntry
	for _, r := range requests {
		if o := &r.Value; o.late {
			call.AddLate(&o.userID, o.orderID, o.key)
		} else {
			call.Add(&o.userID, &o.orderID, o.key)
		}
	}
	traceparent, ended := v.config.Observer.call(requests)
	call.Traceparent = traceparent
	d, err := v.ledger.Admit(ctx, call)
	if ended != nil {
		ended(err)
	}
	if errors.Is(err, ledger.ErrUnacknowledged) && !d.HasOrder() {
		err = nil // refusals do not wait for replicas
	}
	heard := v.now()
	v.config.Observer.batch(len(requests), heard-asked, err)
	if err == nil {
		b.syncClock(heard, d.Now)
	}
	return d, expiry, err
}

// wakeEvery is how often the workers are told at most that orders are sent to a bucket. They read its stream for longer.
const wakeEvery = time.Second

// wakeWorkers has the workers read the bucket's stream: while nobody buys, they do not.
func (b *bucket) wakeWorkers(now time.Duration) {
	if last := b.woken.Load(); last != 0 && now < time.Duration(last)+wakeEvery || !b.woken.CompareAndSwap(last, int64(now)) {
		return
	}
	b.voucher.config.Workers.Wake(b.voucher.id, b.number)
}

// observeDecision remembers what Redis has, so that a loss is noticed. That includes what no replica
// has acknowledged: a consumer may have persisted it already.
func (b *bucket) observeDecision(requests []*request, d ledger.Decision, epoch int64, tried bool) {
	k := ledger.Known{Epoch: epoch, Seq: d.Seq, Returned: d.Returned}
	last := strings.LastIndexByte(d.Outcomes, ledger.Accepted)
	if last < 0 && tried { // what an earlier attempt accepted is repeated now
		last = strings.LastIndexByte(d.Outcomes, ledger.Repeated)
	}
	if last >= 0 {
		o := &requests[last].Value
		k.User, k.Order, k.Key, k.Late = o.userID, o.orderID, o.key, o.late
	}
	b.observe(k)
}

// answer answers the requests whose outcome is final, and returns the others:
//
//	refused       while an earlier attempt may still accept the order
//	accepted      while too few replicas have the order (acknowledged is false)
//	sold out      in this bucket, while another bucket may have stock; short says that there is one
func (b *bucket) answer(
	requests []*request, d ledger.Decision, doubt int64, acknowledged bool,
) (left []*request, short bool) {
	b.updateCache(d)
	earlier := d.Earlier
	for i, r := range requests {
		err, empty := refusal(d.Outcomes[i]), d.Outcomes[i] == ledger.SoldOut && b.voucher.split()
		if empty || err == nil && !acknowledged || err != nil && d.Now <= doubt {
			left, short = append(left, r), short || empty
		} else if d.Outcomes[i] == ledger.RepeatedUnderKey {
			r.Answer(&order.RepeatedError{ID: earlier[0]})
		} else {
			r.Answer(err)
		}
		if d.Outcomes[i] == ledger.RepeatedUnderKey {
			earlier = earlier[1:]
		}
	}
	return left, short
}

// updateCache stores what a decision says about the bucket as a whole. That one of several buckets is
// empty says nothing about the voucher.
func (b *bucket) updateCache(d ledger.Decision) {
	v := b.voucher
	now := v.now()
	switch {
	case strings.IndexByte(d.Outcomes, ledger.Overloaded) >= 0:
		b.store(now, order.ErrOverloaded, overloadRecheckEvery)
	case d.Stock <= 0 && !v.split():
		b.store(now, voucher.ErrSoldOut, v.config.RecheckEvery)
	case d.Stock <= 0:
		b.clear(order.ErrOverloaded)
	case b.refusal.Load() != nil:
		b.refusal.Store(nil)
	}
	if v.split() && (d.Stock > 0 || strings.IndexByte(d.Outcomes, ledger.Accepted) >= 0) {
		v.clearSoldOut() // where this stock came from there may be more
	}
}

// refusal returns the error for an outcome; nil if the user has the order.
func refusal(o ledger.Outcome) error {
	switch o {
	case ledger.Accepted, ledger.Repeated, ledger.RepeatedUnderKey:
		return nil
	case ledger.AlreadyOrdered:
		return order.ErrAlreadyOrdered
	case ledger.NotStarted:
		return voucher.ErrNotStarted
	case ledger.Ended:
		return voucher.ErrEnded
	case ledger.SoldOut:
		return voucher.ErrSoldOut
	case ledger.Overloaded:
		return order.ErrOverloaded
	}
	return fmt.Errorf("%w: unexpected outcome %q", order.ErrUnavailable, o)
}
