package admission

import (
	"context"
	"slices"
	"strings"
	"time"
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
	var doubt int64 // until when an earlier attempt may still act, on Redis' clock
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		wait := l.gate.config.OpenWait
		if doubt > 0 {
			wait = l.gate.config.Patience
		}
		known, err := l.opened(ctx, wait)
		if err != nil {
			return giveUp(left, err)
		}
		if left = slices.DeleteFunc(left, func(r *ride) bool { return !r.board() }); len(left) == 0 {
			return nil
		}
		a, expiry, err := l.attempt(ctx, known, left)
		switch {
		case err != nil:
			if !harmless(err) {
				doubt = max(doubt, expiry)
			}
		case a.verdict == decided:
			if left = l.settle(left, a, known.epoch, doubt); len(left) == 0 {
				return nil
			}
			err, pause = errDoubt, max(firstPause, time.Duration(doubt-a.now)*time.Millisecond)
		case a.verdict == late:
			err = errLate
		default:
			err = l.shut(known.epoch, a.verdict)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return giveUp(left, err)
		}
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
	a, err := g.server.decide(ctx, &call{keys: l.keys, seen: known, bound: g.config.MaxPending, expiry: expiry, batch: batch})
	heard := g.now()
	g.config.Observer.batch(len(batch), heard-asked, err)
	if err == nil {
		l.tick(heard, a.now)
	}
	return a, expiry, err
}

// settle answers those about whom nothing can change any more, and returns the rest:
// who is refused while an earlier attempt may still have him accepted.
func (l *line) settle(batch []*ride, a answer, epoch, doubt int64) (left []*ride) {
	l.learn(l.gate.now(), a.stock, strings.IndexByte(a.states, overloaded) >= 0, l.gate.config.Recheck)
	saw := seen{epoch: epoch, seq: a.seq, back: a.back}
	last := strings.LastIndexByte(a.states, accepted)
	if last < 0 && doubt > 0 { // what an earlier attempt accepted is repeated now
		last = strings.LastIndexByte(a.states, repeated)
	}
	if last >= 0 {
		saw.user, saw.order = batch[last].userID, batch[last].orderID
	}
	l.saw(saw)
	for i, r := range batch {
		err := refusal(a.states[i])
		if err != nil && a.now <= doubt {
			left = append(left, r)
			continue
		}
		r.done <- err
	}
	return left
}
