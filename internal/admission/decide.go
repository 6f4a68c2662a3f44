package admission

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"seckill/internal/order"
	"seckill/internal/voucher"
)

// The pauses between the attempts at one batch.
const (
	firstPause = 5 * time.Millisecond
	maxPause   = 200 * time.Millisecond
)

// decide finds out about every order of a batch. It returns an error where it could
// not, which those concerned have been given.
func (l *line) decide(batch []*ride) error {
	// Neither the buyers' contexts nor the gate's end end it: what was sent is decided,
	// and somebody has to hear of it.
	ctx, cancel := context.WithTimeout(context.Background(), l.gate.config.Patience)
	defer cancel()
	left := slices.Clone(batch)
	var drawing turn
	defer drawing.end()
	var doubt int64 // until when an earlier attempt may still act, on Redis' clock
	var tried bool  // an earlier attempt may have acted
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		known, err := l.opened(ctx, l.gate.config.openWait(tried))
		if err != nil {
			return giveUp(left, err)
		}
		if left = slices.DeleteFunc(left, func(r *ride) bool { return !r.board() }); len(left) == 0 {
			return nil
		}
		a, expiry, err := l.attempt(ctx, known, left)
		drawing.end()
		switch {
		case errors.Is(err, errUnacknowledged): // it has acted, and will not again
			l.note(left, a, known.epoch, tried)
			tried = true
			if left, _ = l.settle(left, a, doubt, false); len(left) == 0 {
				return nil
			}
		case err != nil:
			if !harmless(err) {
				doubt, tried = max(doubt, expiry), true
			}
		case a.verdict == decided:
			l.note(left, a, known.epoch, tried)
			var short bool
			if left, short = l.settle(left, a, doubt, true); len(left) == 0 {
				return nil
			}
			if short {
				err = l.pool.draw(ctx, l, known.epoch, &drawing)
			}
			switch {
			case short && err == nil:
				pause = firstPause
				continue // and decide at once
			case short && !errors.Is(err, voucher.ErrSoldOut):
				// Whether anything is left is not known.
			case a.now > doubt:
				answerAll(left, voucher.ErrSoldOut)
				return nil
			default:
				err, pause = errDoubt, max(firstPause, time.Duration(doubt-a.now)*time.Millisecond)
			}
		case a.verdict == late:
			err = errLate
		default:
			err = l.shut(known.epoch, a.verdict)
		}
		if !tried { // nothing has come of it yet: who has gone may leave
			recall(left)
		}
		if !sleep(ctx, pause) {
			return giveUp(left, err)
		}
	}
}

// openWait is how long those wait for a shut voucher of whom an attempt was made or not.
func (c *Config) openWait(tried bool) time.Duration {
	if tried {
		return c.Patience
	}
	return c.OpenWait
}

// sleep says whether ctx did not end before.
func sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

func giveUp(batch []*ride, cause error) error {
	err := unavailable(cause)
	answerAll(batch, err)
	return err
}

// attempt asks Redis once. It also returns until when the call may act.
func (l *line) attempt(ctx context.Context, known seen, batch []*ride) (answer, int64, error) {
	g := l.gate
	ctx, cancel := context.WithTimeout(ctx, g.config.AttemptTimeout)
	defer cancel()
	asked := g.now()
	expiry := l.clock.Load().at(asked) + g.config.AttemptTimeout.Milliseconds()
	a, err := g.server.decide(ctx, &call{keys: l.keys, seen: known, bound: l.pool.bound(), expiry: expiry, batch: batch})
	heard := g.now()
	g.config.Observer.batch(len(batch), heard-asked, err)
	if err == nil {
		l.tick(heard, a.now)
	}
	return a, expiry, err
}

// settle answers those about whom nothing can change any more, and returns the rest:
// who is refused while an earlier attempt may still have him accepted; who has an order
// that is not known to be kept; and who found his bucket empty where there are others, of
// which short says that there is one.
func (l *line) settle(batch []*ride, a answer, doubt int64, kept bool) (left []*ride, short bool) {
	l.learn(a)
	for i, r := range batch {
		err, empty := refusal(a.states[i]), a.states[i] == soldOut && l.pool.split()
		if empty || err == nil && !kept || err != nil && a.now <= doubt {
			left, short = append(left, r), short || empty
			continue
		}
		r.done <- err
	}
	return left, short
}

// note keeps in mind what Redis has by an answer, so that it is noticed when it has not
// any more: also what no replica acknowledged, since whoever persists orders may have had
// it from there.
func (l *line) note(batch []*ride, a answer, epoch int64, tried bool) {
	saw := seen{epoch: epoch, seq: a.seq, back: a.back}
	last := strings.LastIndexByte(a.states, accepted)
	if last < 0 && tried { // what an earlier attempt accepted is repeated now
		last = strings.LastIndexByte(a.states, repeated)
	}
	if last >= 0 {
		saw.user, saw.order = batch[last].userID, batch[last].orderID
	}
	l.saw(saw)
}

// learn takes what an answer says of the bucket as a whole. That one of several is empty
// says nothing of the voucher.
func (l *line) learn(a answer) {
	now, every := l.gate.now(), l.gate.config.Recheck
	full := strings.IndexByte(a.states, overloaded) >= 0
	switch {
	case full:
		l.mark(now, order.ErrOverloaded, overloadRecheck)
	case a.stock <= 0 && !l.pool.split():
		l.mark(now, voucher.ErrSoldOut, every)
	case a.stock <= 0:
		l.unmark(order.ErrOverloaded)
	case l.refusal.Load() != nil:
		l.refusal.Store(nil)
	}
	if l.pool.split() && (a.stock > 0 || strings.IndexByte(a.states, accepted) >= 0) {
		l.pool.lift() // where this came from there may be more
	}
}
