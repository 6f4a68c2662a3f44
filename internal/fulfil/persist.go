package fulfil

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// persist writes a batch and takes it out of the streams. One that is refused is split
// until what spoils it is alone.
func (w *worker) persist(ctx context.Context, batch []entry) error {
	states, err := w.offer(ctx, batch)
	switch {
	case err == nil:
		return w.settle(ctx, batch, states)
	case ctx.Err() != nil:
		return ctx.Err()
	case len(batch) == 1:
		return w.refused(ctx, batch[0], err)
	}
	half := len(batch) / 2
	return cmp.Or(w.persist(ctx, batch[:half]), w.persist(ctx, batch[half:]))
}

// offer gives a batch to the database until there is an answer: a database that is not
// there says nothing about the orders.
func (w *worker) offer(ctx context.Context, batch []entry) ([]order.Status, error) {
	orders := accepted(batch)
	for failures := 1; ; failures++ {
		begun := time.Now()
		states, err := w.write(ctx, orders)
		w.config.Observer.batch(len(batch), time.Since(begun), err)
		if err == nil && failures > 1 {
			w.config.Log.LogAttrs(ctx, slog.LevelInfo, "fulfil: the database is back", slog.Int("attempts", failures))
		}
		if err == nil || !passing(err) || ctx.Err() != nil {
			return states, err
		}
		if failures == 1 {
			w.complain(ctx, "the database does not answer, trying until it does", err)
		}
		if !sleep(ctx, pause(failures, w.config.FirstPause, w.config.MaxPause)) {
			return nil, ctx.Err()
		}
	}
}

// passing says whether an error is none of the order's making.
func passing(err error) bool {
	return errors.Is(err, order.ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// errPanic: writing a batch panicked.
var errPanic = errors.New("fulfil: panic")

// write is one transaction. What panics on one batch must not end those beside it.
func (w *worker) write(ctx context.Context, orders []order.Accepted) (states []order.Status, err error) {
	defer func() {
		if p := recover(); p != nil {
			states, err = nil, fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	states, err = w.config.Shelf.Persist(ctx, orders)
	if err == nil && len(states) != len(orders) {
		return nil, errCount
	}
	return states, err
}

// settle takes a batch out of the streams that the database has decided on.
func (w *worker) settle(ctx context.Context, batch []entry, states []order.Status) error {
	if err := w.config.Faults.Pass(ctx, lock.AfterCommit); err != nil {
		return err
	}
	confirmed := make([]entry, 0, len(batch))
	for i, e := range batch {
		if states[i] == order.Confirmed {
			confirmed = append(confirmed, e)
		}
	}
	failed := w.finish(ctx, confirmed)
	for i, e := range batch {
		if states[i] != order.Confirmed {
			failed = cmp.Or(failed, w.bury(ctx, e, true, Before, "the order's row says so"))
		}
	}
	return failed
}

// finish takes entries out of the streams, and tells who waits for them.
func (w *worker) finish(ctx context.Context, entries []entry) error {
	parts := byStream(entries)
	errs := w.inbox.done(ctx, parts)
	now := time.Now()
	for i, part := range parts {
		if errs[i] != nil {
			continue
		}
		for _, e := range part {
			if !e.gone {
				w.bell.ring(e.order.OrderID)
				w.config.Observer.persisted(now.Sub(e.order.At))
			}
		}
	}
	return cmp.Or(errs...)
}

// refused deals with an entry that, by itself, the database did not take.
func (w *worker) refused(ctx context.Context, e entry, err error) error {
	if reason, final := reasonOf(err); final {
		return w.reject(ctx, e, reason, err)
	}
	tried, countErr := w.inbox.attempt(ctx, e, 1)
	if countErr != nil {
		return countErr
	}
	return w.again(ctx, e, tried, Failed, err)
}

// alone tries an entry by itself: one that failed so before, or that was delivered
// suspiciously often. The try is counted before it begins, as it may end the process.
func (w *worker) alone(ctx context.Context, e entry) error {
	if e.malformed != nil {
		return w.reject(ctx, e, Malformed, e.malformed)
	}
	tried, err := w.inbox.attempt(ctx, e, 1)
	if err != nil {
		return err
	}
	if tried > w.config.MaxAttempts {
		return w.reject(ctx, e, Deadly, errDeadly)
	}
	states, err := w.offer(ctx, []entry{e})
	switch {
	case err == nil:
		return w.settle(ctx, []entry{e}, states)
	case ctx.Err() != nil || passing(err):
		// The stop came first, which is not held against the entry.
		_, countErr := w.inbox.attempt(context.WithoutCancel(ctx), e, -1)
		return errors.Join(err, countErr)
	}
	if reason, final := reasonOf(err); final {
		return w.reject(ctx, e, reason, err)
	}
	return w.again(ctx, e, tried, Failed, err)
}

// errDeadly is the detail of [Deadly].
var errDeadly = errors.New("fulfil: every attempt ended the process")

// again puts an entry aside that failed, unless it was tried often enough.
func (w *worker) again(ctx context.Context, e entry, tried int64, reason Reason, err error) error {
	if tried >= w.config.MaxAttempts {
		return w.reject(ctx, e, reason, err)
	}
	w.config.Log.LogAttrs(ctx, slog.LevelWarn, "fulfil: an order failed and will be tried again",
		slog.Int64("voucher", e.voucher), slog.String("entry", e.id), slog.Int64("order", e.order.OrderID),
		slog.Int64("attempt", tried), slog.Any("error", err))
	w.park(e, pause(int(tried), w.config.FirstPause, w.config.MaxPause))
	return nil
}

// reasonOf says why the database refused an order for good.
func reasonOf(err error) (Reason, bool) {
	for _, final := range []struct {
		err    error
		reason Reason
	}{
		{order.ErrAlreadyOrdered, AlreadyOrdered},
		{order.ErrStaleEpoch, StaleEpoch},
		{order.ErrIDTaken, IDTaken},
		{voucher.ErrSoldOut, SoldOut},
		{voucher.ErrNotFound, NoVoucher},
	} {
		if errors.Is(err, final.err) {
			return final.reason, true
		}
	}
	return "", false
}
