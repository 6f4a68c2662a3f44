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

// decide finds out about every order of a batch. If it cannot, it returns the error that it has given to the requests.
func (b *bucket) decide(requests []*request) error {
	v := b.voucher
	// Neither the requests' contexts nor the end of the gate end this one: what was sent is decided, and the requests
	// must be told.
	ctx, cancel := context.WithTimeout(context.Background(), v.config.DecisionTimeout)
	defer cancel()
	u := undecided{bucket: b, left: slices.Clone(requests)}
	defer u.rebalancing.end()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		known, err := v.awaitOpen(ctx, b, u.openWait())
		if err != nil {
			return u.giveUp(err)
		}
		u.left = slices.DeleteFunc(u.left, func(r *request) bool { return !r.MarkSent() })
		if len(u.left) == 0 {
			return nil
		}
		d, expiry, err := b.attempt(ctx, known, u.left)
		u.rebalancing.end()
		var next step
		switch {
		case errors.Is(err, ledger.ErrUnacknowledged):
			next = u.unacknowledged(d, known.Epoch, err)
		case err != nil:
			next = u.failed(expiry, err)
		case d.Verdict == ledger.Decided:
			next = u.decided(ctx, d, known.Epoch)
		case d.Verdict == ledger.Late:
			next = step{cause: errLate}
		default:
			next = step{cause: v.markClosed(b, known.Epoch, d.Verdict)}
		}
		switch {
		case len(u.left) == 0:
			return nil
		case next.cause == nil:
			pause = firstPause
			continue
		case next.pause > 0:
			pause = next.pause
		}
		if !u.acted { // requests whose contexts end may leave
			batch.UnmarkSent(u.left)
		}
		if !sleep(ctx, pause) {
			return u.giveUp(next.cause)
		}
	}
}

// undecided is a batch until each of its orders is decided.
//
// If the reply of an attempt is lost, the attempt may still act until its expiry. Until then the requests of the batch
// are in doubt: nobody is refused, and the same batch is sent again.
type undecided struct {
	bucket *bucket
	left   []*request // those without an answer
	acted  bool       // an attempt may have acted
	doubt  int64      // until when an attempt whose reply was lost may act, by Redis' clock
	// rebalancing is the turn to rebalance. It is kept until the stock that was found was asked for.
	rebalancing turn
}

// step is what follows an attempt that left orders undecided.
type step struct {
	cause error         // of a pause; nil if the batch is sent again at once, since another bucket gave stock
	pause time.Duration // if not the usual one
}

// openWait is how long the requests wait for a closed voucher.
func (u *undecided) openWait() time.Duration {
	if u.acted {
		return u.bucket.voucher.config.DecisionTimeout
	}
	return u.bucket.voucher.config.OpenWait
}

// failed takes note of an attempt without a reply.
func (u *undecided) failed(expiry int64, err error) step {
	if !ledger.Harmless(err) {
		u.doubt, u.acted = max(u.doubt, expiry), true
	}
	return step{cause: err}
}

// unacknowledged takes note of an attempt that has acted, while too few replicas have what it accepted: nobody is told
// of an accepted order.
func (u *undecided) unacknowledged(d ledger.Decision, epoch int64, err error) step {
	u.observe(d, epoch)
	u.acted = true
	u.answer(d, func(o ledger.Outcome) bool { return refusal(o) != nil && u.final(d, o) })
	return step{cause: err}
}

// decided answers what is final. If the bucket is sold out, it looks for stock in the others.
func (u *undecided) decided(ctx context.Context, d ledger.Decision, epoch int64) step {
	b := u.bucket
	u.observe(d, epoch)
	u.answer(d, func(o ledger.Outcome) bool { return u.final(d, o) })
	if b.voucher.split() && strings.IndexByte(d.Outcomes, ledger.SoldOut) >= 0 {
		switch err := b.voucher.rebalance(ctx, b, epoch, &u.rebalancing); {
		case !errors.Is(err, voucher.ErrSoldOut): // there is stock, or it is not known
			return step{cause: err}
		case d.Now > u.doubt:
			batch.AnswerAll(u.left, voucher.ErrSoldOut)
			u.left = nil
		}
	}
	return step{cause: errInDoubt, pause: max(firstPause, time.Duration(u.doubt-d.Now)*time.Millisecond)}
}

// final reports whether an outcome is the order's answer. A refusal is not, while an earlier attempt may still accept
// the order, or another bucket may have stock.
func (u *undecided) final(d ledger.Decision, o ledger.Outcome) bool {
	return refusal(o) == nil || d.Now > u.doubt && (o != ledger.SoldOut || !u.bucket.voucher.split())
}

// answer answers the requests whose outcome is final. The others are left.
func (u *undecided) answer(d ledger.Decision, final func(ledger.Outcome) bool) {
	u.bucket.updateCache(d)
	earlier := d.Earlier
	var left []*request
	for i, r := range u.left {
		switch o := d.Outcomes[i]; {
		case !final(o):
			left = append(left, r)
		case o == ledger.RepeatedUnderKey:
			r.Answer(&order.RepeatedError{ID: earlier[0]})
		default:
			r.Answer(refusal(o))
		}
		if d.Outcomes[i] == ledger.RepeatedUnderKey {
			earlier = earlier[1:]
		}
	}
	u.left = left
}

// observe remembers what Redis has, so that a loss is noticed. That includes what no replica has acknowledged: a
// consumer may have persisted it already.
func (u *undecided) observe(d ledger.Decision, epoch int64) {
	k := ledger.Known{Epoch: epoch, Seq: d.Seq, Returned: d.Returned}
	last := strings.LastIndexByte(d.Outcomes, ledger.Accepted)
	if last < 0 && u.acted { // what an earlier attempt accepted is repeated now
		last = strings.LastIndexByte(d.Outcomes, ledger.Repeated)
	}
	if last >= 0 {
		o := &u.left[last].Value
		k.User, k.Order, k.Key, k.Late = o.userID, o.orderID, o.key, o.late
	}
	u.bucket.observe(k)
}

// giveUp answers the remaining requests. After an attempt that may have acted, their outcome is unknown even if the
// voucher is forgotten. Then the error has the cause as text only: a cause such as [voucher.ErrEnded] would be taken
// for a refusal.
func (u *undecided) giveUp(cause error) error {
	err := notAdmitted(cause)
	if u.acted {
		err = fmt.Errorf("%w: %s", order.ErrUnavailable, cause.Error())
	}
	batch.AnswerAll(u.left, err)
	return err
}

// attempt asks Redis once. It also returns until when the call may act, by Redis' clock. The bucket was open, so Redis'
// clock is known.
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

// wakeEvery is how often, at most, the workers are told that orders are sent to a bucket. They read its stream for
// longer than that.
const wakeEvery = time.Second

// wakeWorkers has the workers read the bucket's stream: while nobody buys, they do not.
func (b *bucket) wakeWorkers(now time.Duration) {
	if last := b.woken.Load(); last != 0 && now < time.Duration(last)+wakeEvery || !b.woken.CompareAndSwap(last, int64(now)) {
		return
	}
	b.voucher.config.Workers.Wake(b.voucher.id, b.number)
}

// updateCache stores what a decision says about the bucket as a whole. That one of several buckets is empty says
// nothing about the voucher.
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
	case ledger.Paused:
		return voucher.ErrPaused
	case ledger.SoldOut:
		return voucher.ErrSoldOut
	case ledger.Overloaded:
		return order.ErrOverloaded
	}
	return fmt.Errorf("%w: unexpected outcome %q", order.ErrUnavailable, o)
}
