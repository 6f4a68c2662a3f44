package admission

import (
	"context"
	"errors"
	"time"

	"seckill/internal/voucher"
)

// A bucket that is empty draws from the one that has most, half of what that has, in
// two steps: the other gives, this one takes in. What was given is in the giver's ledger
// for good, and what was taken in in the taker's. So each step may be repeated, come
// late or be lost with the process that was at it: whoever looks sees what is in transit,
// and may finish it. Halving keeps the draws few: a bucket with all the buyers has all
// of another's stock n after log n of them.

// errSilent: the bucket did not answer when it was last looked at.
var errSilent = errors.New("the bucket did not answer a moment ago")

// maxSilent is for how long draws do not ask a bucket that did not answer. It is at most
// half of [Config.Patience], so that whoever waits sees it asked again.
const maxSilent = time.Second

// glance is look for a draw, during which nobody else draws: it does not wait for long,
// and not again and again for a bucket whose node hangs.
func (p *pool) glance(ctx context.Context, mine *line) []state {
	now, some := int64(p.gate.now()), make([]*line, 0, len(p.lines))
	for _, l := range p.lines {
		if l == mine || l.silent.Load() <= now {
			some = append(some, l)
		}
	}
	return p.lookAt(ctx, p.gate.config.AttemptTimeout/4, some)
}

// turn is a line's at drawing. In one process one line of a voucher draws at a time and
// keeps the turn until it has sold of what it drew, so that lines do not draw the last
// piece from each other.
type turn struct{ of *pool }

// begin waits for the turn, unless it is here.
func (t *turn) begin(ctx context.Context, p *pool) error {
	if t.of != nil {
		return nil
	}
	select {
	case p.drawing <- struct{}{}:
		t.of = p
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end passes the turn on, if it is here.
func (t *turn) end() {
	if t.of != nil {
		<-t.of.drawing
		t.of = nil
	}
}

// draw finds stock for a line whose bucket has none. Without an error there is some now,
// or was a moment ago, and the line has the turn. The error is [voucher.ErrSoldOut]
// where nothing is left in any bucket nor in transit; any other is why that could not be
// found out.
func (p *pool) draw(ctx context.Context, l *line, epoch int64, t *turn) error {
	if err := t.begin(ctx, p); err != nil {
		return err
	}
	for {
		found, err := p.drawOnce(ctx, l, epoch)
		if found {
			return nil
		}
		if err == nil { // what was seen has changed: look again
			err = ctx.Err()
		}
		if err != nil {
			t.end()
			return err
		}
	}
}

// drawOnce looks once and does the next best thing. It has not found anything, and met
// no error, where there is reason to look again.
func (p *pool) drawOnce(ctx context.Context, l *line, epoch int64) (found bool, err error) {
	looked := p.gate.now()
	if int64(looked) < p.dry.Load() {
		return false, voucher.ErrSoldOut // as another line has seen
	}
	all := p.glance(ctx, l)
	mine := &all[l.bucket]
	if mine.err != nil {
		return false, mine.err
	}
	for i := range all {
		if s := &all[i]; s.err == nil && (s.epoch != epoch || !s.open()) {
			return false, l.shut(epoch, closed)
		}
	}
	switch gone, err := forgot(all, func() []state { return p.glance(ctx, l) }); {
	case err != nil:
		return false, err
	case gone:
		return false, l.shut(epoch, forgotten)
	case mine.stock > 0: // given back, or drawn by another process
		return true, nil
	}
	richest := -1
	for i := range all {
		switch s := &all[i]; {
		case s.err != nil:
		case s.to[l.bucket] > mine.from[i]: // given to this one, and never taken in
			return p.fetch(ctx, p.lines[i], l, s.to[l.bucket], epoch)
		case s.stock > 0 && (richest < 0 || s.stock > all[richest].stock):
			richest = i
		}
	}
	if richest >= 0 {
		total, err := p.give(ctx, p.lines[richest], l, epoch, true)
		if err != nil || total <= mine.from[richest] {
			return false, err
		}
		return p.take(ctx, l, richest, total, epoch)
	}
	return false, p.nothing(ctx, all, epoch, looked)
}

// nothing finds out whether a look that found no stock is the last word.
func (p *pool) nothing(ctx context.Context, all []state, epoch int64, looked time.Duration) error {
	settled, err := p.settleTransit(ctx, all, epoch)
	if err != nil || settled {
		return err
	}
	if err := unknown(all); err != nil {
		return err
	}
	var left int64
	for i := range all {
		left += all[i].share()
	}
	if left > 0 {
		return nil // it was moved while the buckets were looked at
	}
	p.dried(looked)
	return voucher.ErrSoldOut
}

// fetch has a bucket take in what a look has found in transit to it. Where replicas are
// waited for, nobody knows yet whether they have what was given.
func (p *pool) fetch(ctx context.Context, from, to *line, total, epoch int64) (bool, error) {
	if p.gate.config.WaitReplicas > 0 {
		var err error
		if total, err = p.give(ctx, from, to, epoch, false); err != nil {
			return false, err
		}
	}
	return p.take(ctx, to, from.bucket, total, epoch)
}

// give has one bucket give more to another, or nothing more, and returns what it has
// given to that in all.
func (p *pool) give(ctx context.Context, from, to *line, epoch int64, more bool) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, p.gate.config.AttemptTimeout)
	defer cancel()
	e, err := p.gate.server.give(ctx, from.keys, epoch, to.bucket, more)
	switch {
	case err != nil:
		return 0, err
	case e.verdict != decided:
		return 0, to.shut(epoch, e.verdict)
	}
	from.sawSeq(epoch, e.seq)
	return e.amount, nil
}

// take has a bucket take in what another one gave to it.
func (p *pool) take(ctx context.Context, to *line, from int, total, epoch int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, p.gate.config.AttemptTimeout)
	defer cancel()
	e, err := p.gate.server.take(ctx, to.keys, epoch, from, total)
	switch {
	case err != nil:
		return false, err
	case e.verdict != decided:
		return false, to.shut(epoch, e.verdict)
	}
	to.sawSeq(epoch, e.seq)
	p.gate.config.Observer.drawn(e.amount)
	return true, nil // and where somebody else has taken it in, it is here as well
}

// settleTransit finishes what was given and not taken in: it may be another process's
// that is at it, which does no harm, or one's that died over it.
func (p *pool) settleTransit(ctx context.Context, all []state, epoch int64) (settled bool, err error) {
	for from := range all {
		for to, total := range all[from].to {
			if to >= len(all) || all[to].err != nil || total <= all[to].from[from] {
				continue
			}
			if _, err := p.fetch(ctx, p.lines[from], p.lines[to], total, epoch); err != nil {
				return settled, err
			}
			settled = true
		}
	}
	return settled, nil
}

// forgot says whether a bucket knows less of what it gave than the one that took it in
// does: it has forgotten something.
//
// The buckets are not looked at in the same moment. Where it seems so, the givers are
// looked at again, after the takers then. There is an error where one that it seems of
// does not answer any more.
func forgot(all []state, again func() []state) (bool, error) {
	if !lessGiven(all, all) {
		return false, nil
	}
	later := again()
	if lessGiven(later, all) {
		return true, nil
	}
	err := unknown(later)
	for i := range later {
		if later[i].err != nil {
			later[i] = all[i]
		}
	}
	if lessGiven(later, all) {
		return false, err
	}
	return false, nil
}

func lessGiven(givers, takers []state) bool {
	for to := range takers {
		for from, n := range takers[to].from {
			if from >= len(givers) {
				continue
			}
			if g := &givers[from]; g.err == nil && g.epoch == takers[to].epoch && g.to[to] < n {
				return true
			}
		}
	}
	return false
}
