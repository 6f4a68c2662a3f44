package admission

import (
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
)

// The pauses of opening a voucher.
const (
	firstRetry = 10 * time.Millisecond
	maxRetry   = time.Second
	// lockWait is how long to wait for another process's opening before looking
	// whether it is done: one that died leaves its lock behind.
	lockWait  = 500 * time.Millisecond
	drainPoll = 10 * time.Millisecond
	// storeTimeout bounds one question to a server while a voucher is opened.
	storeTimeout = 5 * time.Second
	fillPage     = 1000
)

// door says whether orders can be decided about, and under which epoch.
type door struct {
	known seen // the epoch is 0 while shut
	// distrusted is the last epoch that Redis has forgotten something of.
	distrusted int64
	// opening is closed when the opening that is under way ends; nil where none is.
	opening chan struct{}
	since   time.Time // when it began
	failed  error     // what it met last
}

// opened returns what is known of the open voucher. Where it is shut it is opened, and
// waited for until the opening has taken so long, or ctx ends.
func (l *line) opened(ctx context.Context, wait time.Duration) (seen, error) {
	l.mu.Lock()
	if l.door.known.epoch != 0 {
		defer l.mu.Unlock()
		return l.door.known, nil
	}
	if l.door.opening == nil {
		l.door.opening, l.door.since, l.door.failed = make(chan struct{}), time.Now(), nil
		if !l.gate.spawn(l.open) {
			close(l.door.opening)
			l.door.opening, l.door.failed = nil, errClosed
			defer l.mu.Unlock()
			return seen{}, errClosed
		}
	}
	opening, limit := l.door.opening, time.NewTimer(time.Until(l.door.since.Add(wait)))
	l.mu.Unlock()
	defer limit.Stop()
	select {
	case <-opening:
	case <-limit.C:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.door.known.epoch != 0:
		return l.door.known, nil
	case l.door.failed == nil:
		return seen{}, errOpening
	case l.door.opening == nil: // it has given up
		return seen{}, l.door.failed
	}
	return seen{}, fmt.Errorf("%w: %w", errOpening, l.door.failed)
}

// saw adds to what is known of an epoch.
func (l *line) saw(s seen) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.door.known.epoch != s.epoch {
		return
	}
	if s.order == 0 && s.back == l.door.known.back { // else it may be what was given back
		s.user, s.order = l.door.known.user, l.door.known.order
	}
	l.door.known = s
}

// shut takes note that the voucher is not open under an epoch, and returns why.
func (l *line) shut(epoch int64, why verdict) error {
	cause := errNotOpen
	if why == forgotten {
		cause = errForgotten
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.door.known.epoch != epoch {
		return cause
	}
	l.door.known = seen{}
	if why == forgotten {
		l.door.distrusted = epoch
	}
	l.gate.config.Log.Warn("admission closed", "voucher", l.id, "epoch", epoch, "error", cause)
	l.gate.config.Observer.closed(cause)
	return cause
}

// open opens the voucher, however long that takes: until it is done, the voucher is
// gone, or the gate closes.
func (l *line) open() {
	g := l.gate
	begun := time.Now()
	var known seen
	var err error
	for pause := firstRetry; ; pause = min(2*pause, maxRetry) {
		known, err = l.tryOpen(g.closing)
		if err == nil || g.closing.Err() != nil || errors.Is(err, voucher.ErrNotFound) {
			break
		}
		l.mu.Lock()
		l.door.failed = err
		l.mu.Unlock()
		if pause >= maxRetry/4 { // what is gone in a moment needs nobody's attention
			g.config.Log.Warn("admission cannot be opened yet", "voucher", l.id, "error", err)
		}
		select {
		case <-time.After(pause):
		case <-g.closing.Done():
		}
	}
	l.mu.Lock()
	l.door.known, l.door.failed = known, err
	close(l.door.opening)
	l.door.opening = nil
	l.mu.Unlock()
	if err == nil {
		g.config.Log.Info("admission open", "voucher", l.id, "epoch", known.epoch, "took", time.Since(begun).String())
		g.config.Observer.opened(time.Since(begun), known.epoch)
	}
}

// tryOpen finds the voucher open, or rebuilds it if nobody else is at it.
func (l *line) tryOpen(ctx context.Context) (seen, error) {
	if known, err := l.adopt(ctx); !errors.Is(err, errBehind) {
		return known, err
	}
	lease, err := l.gate.config.Locker.Acquire(ctx, "admission:"+strconv.FormatInt(l.id, 10), lock.Options{Wait: lockWait})
	if err != nil {
		return seen{}, err
	}
	defer func() { _ = lock.Release(ctx, lease) }() // what is lost is nobody's loss: see the epochs
	ctx = lease.Context()
	if known, err := l.adopt(ctx); !errors.Is(err, errBehind) {
		return known, err
	}
	if err := l.rebuild(ctx); err != nil {
		return seen{}, err
	}
	return l.adopt(ctx)
}

// adopt finds the voucher open: in the database, and in Redis under the same epoch,
// with all that the database has. Else the error is errBehind.
func (l *line) adopt(ctx context.Context) (seen, error) {
	// The database is read first, so that orders persisted in between are no reason to
	// distrust Redis.
	st, err := l.standing(ctx)
	if err != nil {
		return seen{}, err
	}
	now, err := l.look(ctx)
	if err != nil {
		return seen{}, err
	}
	l.mu.Lock()
	distrusted := l.door.distrusted
	l.mu.Unlock()
	if behind(now, st) || now.epoch <= distrusted {
		return seen{}, fmt.Errorf("%w: epoch %d and seq %d, not %d and %d", errBehind, now.epoch, now.seq, st.Epoch, st.Seq[0])
	}
	return seen{epoch: now.epoch, seq: now.seq, back: now.back}, nil
}

// behind says that Redis does not have what the database had before.
func behind(now state, st order.Standing) bool {
	return !now.open() || !st.Open() || now.epoch != st.Epoch || now.seq < st.Seq[0]
}

// rebuild closes the voucher and opens it with what the database has. Wherever it is
// given up, the voucher stays closed and the next attempt begins anew.
func (l *line) rebuild(ctx context.Context) error {
	g := l.gate
	st, err := l.asked(ctx, func(ctx context.Context) (order.Standing, error) { return g.config.Shelf.Close(ctx, l.id) })
	if err != nil {
		return err
	}
	if epoch, err := g.server.shut(ctx, l.keys, st.Epoch); err != nil {
		return err
	} else if epoch != st.Epoch {
		return fmt.Errorf("%w: Redis has %d, the database %d", errMoved, epoch, st.Epoch)
	}
	if err := l.drain(ctx); err != nil {
		return err
	}
	st, err = l.asked(ctx, func(ctx context.Context) (order.Standing, error) { return g.config.Shelf.Open(ctx, l.id, st.Epoch) })
	if err != nil {
		return err
	}
	if err := l.fill(ctx, st); err != nil {
		return err
	}
	switch opened, err := g.server.begin(ctx, l.keys, st, l.sale.from, l.sale.to); {
	case err != nil:
		return err
	case !opened:
		return fmt.Errorf("%w: %d is over", errMoved, st.Epoch)
	}
	return nil
}

// drain waits until no order is on its way any more. Consumers see to that.
func (l *line) drain(ctx context.Context) error {
	for told := false; ; {
		now, err := l.look(ctx)
		if err != nil || now.pending == 0 {
			return err
		}
		if !told {
			l.gate.config.Log.Info("admission waits for orders on their way", "voucher", l.id, "orders", now.pending)
			told = true
		}
		select {
		case <-time.After(drainPoll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// fill prepares the users of an epoch: all who have an order.
func (l *line) fill(ctx context.Context, st order.Standing) error {
	for after := int64(0); ; {
		page, err := l.page(ctx, after)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := l.gate.server.fill(ctx, l.keys.Fresh(st.Epoch), page); err != nil {
			return fmt.Errorf("copy the users of voucher %d: %w", l.id, err)
		}
		after = page[len(page)-1].UserID
	}
}

func (l *line) page(ctx context.Context, after int64) ([]order.Order, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return l.gate.config.Shelf.LiveOrders(ctx, l.id, after, fillPage)
}

func (l *line) standing(ctx context.Context) (order.Standing, error) {
	return l.asked(ctx, func(ctx context.Context) (order.Standing, error) { return l.gate.config.Shelf.Standing(ctx, l.id) })
}

func (l *line) asked(ctx context.Context, ask func(context.Context) (order.Standing, error)) (order.Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return ask(ctx)
}

// look asks Redis how the voucher stands, and what time it is there.
func (l *line) look(ctx context.Context) (state, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	now, err := l.gate.server.state(ctx, l.keys)
	if err == nil {
		l.tick(l.gate.now(), now.now)
	}
	return now, err
}
