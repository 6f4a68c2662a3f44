package fulfil

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// attemptResult is what became of an entry that was tried alone.
type attemptResult int

const (
	decided attemptResult = iota // it failed by its own fault, or was not tried
	written
	refused // the database objects to it, and perhaps to all of its voucher
	outage  // the error says nothing about the entry
)

// maxRefusals is how many entries that are refused one call of [worker.retry] tries, of all streams together.
const maxRefusals = 4 * maxRefused

// retry tries the entries that are due, a batch of them at most: new ones must not wait for long. A stream of which
// some are refused, or one fails for a reason that is not the entry's own, is left for a while, and so are all of them
// in an outage. After maxRefusals or a slow attempt it ends, as new orders wait meanwhile.
func (w *worker) retry(ctx context.Context) {
	w.attempts.settle(ctx)
	outages := 0 // vouchers that met one, since an entry was written
	refusals := 0
	for _, key := range w.retries.due() {
		if ctx.Err() != nil {
			return
		}
		e, taken := w.retries.take(key)
		if !taken {
			continue
		}
		s, began := e.entry.stream, time.Now()
		result, err := w.tryAlone(ctx, e)
		took := time.Since(began)
		if err != nil {
			w.streamsFailed(ctx, err, s)
		}
		switch result {
		case decided:
			if err != nil { // of Redis: each further entry would wait for it, too
				w.retries.pause(s, 0)
			}
		case written:
			outages = 0
			w.retries.written(s)
			if e.untried() { // so the others that were set aside with it may be written, too
				if err := w.persistAll(ctx, w.retries.takeUntried(s)); err != nil {
					w.streamsFailed(ctx, err, s)
				}
			}
		case refused:
			w.retries.refused(s)
			if refusals++; refusals >= maxRefusals {
				return
			}
		case outage:
			w.retries.pauseVoucher(w.streamsLike(s), took, e.untried())
			if outages++; outages > 1 { // it is not one voucher's row that somebody has locked
				w.retries.pauseAll(took)
				return
			}
		}
		if took >= outageAfter {
			return
		}
	}
}

// tryAlone writes a single entry.
func (w *worker) tryAlone(ctx context.Context, e retryEntry) (attemptResult, error) {
	if e.entry.malformed != nil {
		return decided, w.reject(ctx, e, Malformed, e.entry.malformed)
	}
	end, err := w.attempts.begin(ctx, &e)
	switch {
	case errors.Is(err, errNotKnownYet), errors.Is(err, errAttempted):
		e.undecided = true
		w.retries.add(e, w.config.HeartbeatEvery)
		return decided, nil
	case errors.Is(err, errDeadly):
		return decided, w.reject(ctx, e, Deadly, err)
	case err != nil:
		return decided, err
	}
	began := time.Now()
	statuses, err := w.tryWrite(ctx, []entry{e.entry})
	end()
	switch {
	case err == nil:
		return written, w.complete(ctx, []entry{e.entry}, statuses)
	case ctx.Err() != nil:
		return outage, ctx.Err()
	}
	if reason, final := rejectionReason(err); final {
		return decided, w.reject(ctx, e, reason, err)
	}
	result := refused
	if saysNothing(err) {
		result = outage
	}
	return result, w.requeue(ctx, e, time.Since(began), err)
}

// requeue queues an entry again that failed alone, after an attempt that took a time. It rejects the entry if the
// failures are now proven to be its own: the database objects to it every time, and takes others that are like it in
// between. Orders of other vouchers prove nothing: a trigger or a foreign key may refuse one voucher.
func (w *worker) requeue(ctx context.Context, queued retryEntry, took time.Duration, err error) error {
	e := queued.entry
	alike := e.written().Load()
	if mayBlameOrder(err) && queued.failures > 0 && alike > queued.alike {
		queued.countedFailures++
		w.config.Log.LogAttrs(ctx, slog.LevelWarn, "fulfil: an order fails while others are written",
			slog.Int64("voucher", e.stream.voucher), slog.String("entry", e.id), slog.Int64("order", e.order.OrderID),
			slog.Int64("attempt", queued.countedFailures), slog.Any("error", err))
		if queued.countedFailures >= w.config.MaxFailures {
			return w.reject(ctx, queued, Failed, err)
		}
	} else {
		w.warnRefused(ctx, e, err)
	}
	queued.alike = alike
	queued.failures++
	w.retries.add(queued, max(2*took, backoff(queued.failures, w.config.MinBackoff, w.config.MaxBackoff)))
	return nil
}

// warnEvery is the shortest time between two warnings that orders of one stream are refused.
const warnEvery = time.Minute

// warnRefused logs that the database refuses an order, which says nothing of the order yet: it may refuse all orders of
// the voucher. In an outage another line says why.
func (w *worker) warnRefused(ctx context.Context, e entry, err error) {
	last, warned := w.warnedOf[e.stream]
	if warned && time.Since(last) < warnEvery || saysNothing(err) && w.health.inOutage() {
		return
	}
	w.warnedOf[e.stream] = time.Now()
	w.config.Log.LogAttrs(ctx, slog.LevelWarn, "fulfil: the database refuses an order, trying again later",
		slog.Int64("voucher", e.stream.voucher), slog.Int64("order", e.order.OrderID), slog.Any("error", err))
}
