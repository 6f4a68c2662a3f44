package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// Why a voucher is not open, or a batch has no answer yet.
var (
	errNotOpen   = errors.New("not open in Redis under the epoch known")
	errForgotten = errors.New("not all in Redis that was there")
	errBehind    = errors.New("not all in Redis that the database has")
	errOpening   = errors.New("the voucher is being opened")
	errMoved     = errors.New("the epoch was changed by another process")
	errLate      = errors.New("the call took too long to reach Redis")
	errDoubt     = errors.New("an earlier call may still act")
	errBuckets   = errors.New("the voucher was split otherwise")
)

// The pauses of opening a voucher.
const (
	firstRetry = 10 * time.Millisecond
	maxRetry   = time.Second
	// lockWait is how long to wait for another process's opening before looking
	// whether it is done: one that died leaves its lock behind.
	lockWait = 500 * time.Millisecond
	// storeTimeout bounds one question to a server that no buyer's answer waits for.
	storeTimeout = 5 * time.Second
)

// door is the way into a voucher: which of its buckets are open is known by the lines.
type door struct {
	// distrusted is the last epoch that Redis has forgotten something of.
	distrusted int64
	// told: it was said that the voucher is shut.
	told bool
	// opening is closed when the opening that is under way ends; nil where none is.
	opening chan struct{}
	since   time.Time // when it began
	failed  error     // what it met last
}

// knows is what is known of the line's bucket; the epoch is 0 while it is shut.
func (l *line) knows() seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known
}

// opened returns what is known of the open bucket. Where it is shut the voucher is
// opened, and waited for until the opening has taken so long, or ctx ends.
func (l *line) opened(ctx context.Context, wait time.Duration) (seen, error) {
	if known := l.knows(); known.epoch != 0 {
		return known, nil
	}
	return l.pool.opened(ctx, l, wait)
}

func (p *pool) opened(ctx context.Context, l *line, wait time.Duration) (seen, error) {
	p.mu.Lock()
	known := l.knows()
	if known.epoch == 0 {
		p.begin()
	}
	opening, limit := p.door.opening, time.NewTimer(time.Until(p.door.since.Add(wait)))
	p.mu.Unlock()
	defer limit.Stop()
	if known.epoch != 0 {
		return known, nil
	}
	if opening != nil {
		select {
		case <-opening:
		case <-limit.C:
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known = l.knows()
	switch {
	case known.epoch != 0:
		return known, nil
	case p.door.failed == nil:
		return seen{}, errOpening
	case p.door.opening == nil: // it has given up
		return seen{}, p.door.failed
	}
	return seen{}, fmt.Errorf("%w: %w", errOpening, p.door.failed)
}

// reopen begins to open a voucher of which something is shut.
func (p *pool) reopen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin()
}

// begin has the voucher opened, unless that is under way. p.mu is held.
func (p *pool) begin() {
	if p.door.opening != nil {
		return
	}
	p.door.opening, p.door.since, p.door.failed = make(chan struct{}), time.Now(), nil
	if !p.gate.spawn(p.open) {
		p.door.opening, p.door.failed = nil, errClosed
	}
}

// saw adds to what is known of an epoch.
func (l *line) saw(s seen) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known.epoch != s.epoch {
		return
	}
	if s.order == 0 && s.back == l.known.back { // else it may be what was given back
		s.user, s.order = l.known.user, l.known.order
	}
	s.seq = max(s.seq, l.known.seq)
	l.known = s
}

// sawSeq adds what a draw has shown of an epoch.
func (l *line) sawSeq(epoch, seq int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known.epoch == epoch {
		l.known.seq = max(l.known.seq, seq)
	}
}

// shut takes note that the bucket is not open under an epoch, and returns why. Whoever
// needs it next opens the voucher.
func (l *line) shut(epoch int64, why verdict) error {
	cause := errNotOpen
	if why == forgotten {
		cause = errForgotten
	}
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	l.mu.Lock()
	was := l.known.epoch
	if was == epoch {
		l.known = seen{}
	}
	l.mu.Unlock()
	if why == forgotten { // also where the bucket was shut before, for another reason
		p.door.distrusted = max(p.door.distrusted, epoch)
	}
	if was != epoch {
		return cause
	}
	if !p.door.told { // by another bucket's line
		p.door.told = true
		p.gate.config.Log.Warn("admission closed", "voucher", p.id, "epoch", epoch, "error", cause)
		p.gate.config.Observer.closed(cause)
	}
	return cause
}

// open opens the voucher, however long that takes: until it is done, the voucher is
// gone, or the gate closes.
func (p *pool) open() {
	g := p.gate
	begun := time.Now()
	for pause := firstRetry; ; pause = min(2*pause, maxRetry) {
		known, err := p.tryOpen(g.closing)
		last, err := p.enter(known, err)
		if last && err == nil {
			g.config.Log.Info("admission open", "voucher", p.id, "epoch", known[0].epoch, "took", time.Since(begun).String())
			g.config.Observer.opened(time.Since(begun), known[0].epoch)
		}
		if last {
			return
		}
		if pause >= maxRetry/4 { // what is gone in a moment needs nobody's attention
			g.config.Log.Warn("admission cannot be opened yet", "voucher", p.id, "error", err)
		}
		select {
		case <-time.After(pause):
		case <-g.closing.Done():
		}
	}
}

// enter takes what an attempt at opening has come to, and says whether it was the last.
// Of an epoch that Redis was seen to have forgotten something of in the meantime it
// takes nothing.
func (p *pool) enter(known []seen, err error) (last bool, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for bucket, s := range known {
		if s.epoch <= p.door.distrusted {
			err = fmt.Errorf("%w: bucket %d, epoch %d", errForgotten, bucket, s.epoch)
		}
	}
	p.door.failed = err
	if err != nil && p.gate.closing.Err() == nil && !errors.Is(err, voucher.ErrNotFound) {
		return false, err
	}
	if err == nil {
		p.lift() // it may have come back with stock
		for bucket, s := range known {
			p.lines[bucket].adopt(s)
		}
		p.door.told = false
	}
	close(p.door.opening)
	p.door.opening = nil
	return true, err
}

// adopt takes what was found of an open bucket, unless more is known of that epoch.
func (l *line) adopt(s seen) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known.epoch != s.epoch {
		l.known = s
	}
}

// tryOpen finds the voucher open, or rebuilds it if nobody else is at it.
func (p *pool) tryOpen(ctx context.Context) ([]seen, error) {
	if known, err := p.adopt(ctx); !errors.Is(err, errBehind) {
		return known, err
	}
	lease, err := p.gate.config.Locker.Acquire(ctx, "admission:"+strconv.FormatInt(p.id, 10), lock.Options{Wait: lockWait})
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Release(ctx, lease) }() // what is lost is nobody's loss: see the epochs
	ctx = lease.Context()
	if known, err := p.adopt(ctx); !errors.Is(err, errBehind) {
		return known, err
	}
	if err := p.rebuild(ctx); err != nil {
		return nil, err
	}
	return p.adopt(ctx)
}

// adopt finds the voucher open: in the database, and all of it in Redis under the same
// epoch, with all that the database has. Else the error is errBehind.
func (p *pool) adopt(ctx context.Context) ([]seen, error) {
	// The database is read first, so that orders persisted in between are no reason to
	// distrust Redis.
	st, err := p.standing(ctx)
	if err != nil {
		return nil, err
	}
	if len(st.Seq) != len(p.lines) {
		return nil, fmt.Errorf("%w: %d, the database has %d", errBuckets, len(p.lines), len(st.Seq))
	}
	all := p.look(ctx)
	gone, err := forgot(all, func() []state { return p.look(ctx) })
	if err := cmp.Or(unknown(all), err); err != nil {
		return nil, err
	}
	p.mu.Lock()
	distrusted := p.door.distrusted
	p.mu.Unlock()
	known := make([]seen, len(all))
	for i := range all {
		now := &all[i]
		if gone || behind(now, st, i) || now.epoch <= distrusted {
			return nil, fmt.Errorf("%w: bucket %d has epoch %d and seq %d, not %d and %d", errBehind, i, now.epoch, now.seq, st.Epoch, st.Seq[i])
		}
		known[i] = seen{epoch: now.epoch, seq: now.seq, back: now.back}
	}
	return known, nil
}

// behind says that a bucket in Redis does not have what the database had before.
func behind(now *state, st order.Standing, bucket int) bool {
	return !now.open() || !st.Open() || now.epoch != st.Epoch || now.seq < st.Seq[bucket]
}
