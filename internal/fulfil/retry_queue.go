package fulfil

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// retryEntry is an entry to try again later, alone: it failed while others were written,
// or was delivered suspiciously often, or its rejection could not be recorded.
type retryEntry struct {
	entry
	due time.Time
	// failures is how often it failed alone. writes and alike are the values of [dbHealth.writes], at the
	// first failure, and of [entry.written], at the latest: if they have grown, others were written since.
	failures      int
	writes, alike int64
	// setAside: it was queued because the database refused others of its stream.
	setAside bool
	// countedFailures is the number of failures that followed the write of an order like this one,
	// which itself followed the previous failure.
	countedFailures int64
}

// retry tries the entries that are due. During an outage it stops at the first failure, and pauses;
// the order is random, so that no entry always comes first.
func (w *worker) retry(ctx context.Context) {
	w.endAttempts(ctx)
	now := time.Now()
	if now.Before(w.retryAfter) {
		return
	}
	var due []retryEntry
	for _, e := range w.retryQueue {
		if !e.due.After(now) {
			due = append(due, e)
		}
	}
	rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	for _, e := range due {
		delete(w.retryQueue, e.key())
		outage, err := w.tryAlone(ctx, e)
		if err != nil {
			w.streamsFailed(ctx, err, e.stream)
		}
		if outage {
			w.retryFailures++
			w.retryAfter = time.Now().Add(backoff(w.retryFailures, w.config.MinBackoff, w.config.MaxBackoff))
			return
		}
		if w.retryFailures = 0; err == nil && e.untried() {
			w.retryTogether(ctx)
			return
		}
	}
}

// untried reports whether the entry was set aside without being tried, because the database refused others of its
// stream.
func (e *retryEntry) untried() bool { return e.failures == 0 && e.setAside }

// retryTogether writes the entries that were set aside untried, in batches: one of them was just written.
func (w *worker) retryTogether(ctx context.Context) {
	var untried []entry
	for key, e := range w.retryQueue {
		if e.untried() {
			untried = append(untried, e.entry)
			delete(w.retryQueue, key)
		}
	}
	slices.SortFunc(untried, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.voucher, b.voucher), cmp.Compare(a.bucket, b.bucket), cmp.Compare(a.order.OrderID, b.order.OrderID))
	})
	for part := range batches(untried, w.config.BatchSize) {
		if err := w.persist(ctx, part); err != nil {
			for _, ofStream := range byStream(part) {
				w.streamsFailed(ctx, err, ofStream[0].stream)
			}
		}
	}
}

// tryAlone writes a single entry. It reports an outage if the database's error says nothing
// about the entry.
func (w *worker) tryAlone(ctx context.Context, e retryEntry) (outage bool, err error) {
	if e.malformed != nil {
		return false, w.reject(ctx, e, Malformed, e.malformed)
	}
	suspicious := w.suspicious(e.entry)
	if suspicious {
		unfinished, err := w.reader.beginAttempt(ctx, e.entry, w.incarnation)
		switch {
		case err != nil:
			w.endAttempt(ctx, e.entry) // it may have begun, for all that Redis says
			return false, err
		case unfinished > w.config.MaxAttempts:
			return false, w.reject(ctx, e, Deadly, errDeadly)
		}
	}
	statuses, err := w.tryWrite(ctx, []entry{e.entry})
	if suspicious {
		w.endAttempt(ctx, e.entry)
	}
	switch {
	case err == nil:
		return false, w.complete(ctx, []entry{e.entry}, statuses)
	case ctx.Err() != nil:
		return true, ctx.Err()
	}
	if reason, final := rejectionReason(err); final {
		return false, w.reject(ctx, e, reason, err)
	}
	return transient(err), w.requeue(ctx, e, err)
}

// requeue queues an entry again that failed alone. It rejects the entry if the failures are
// now proven to be its own: the database objects to it every time, and takes others that are like it in
// between. Orders of other vouchers prove nothing: a trigger or a foreign key may refuse one voucher.
func (w *worker) requeue(ctx context.Context, e retryEntry, err error) error {
	alike := e.written().Load()
	if mayBlameOrder(err) && e.failures > 0 && alike > e.alike {
		e.countedFailures++
		w.config.Log.LogAttrs(ctx, slog.LevelWarn, "fulfil: an order fails while others are written",
			slog.Int64("voucher", e.voucher), slog.String("entry", e.id), slog.Int64("order", e.order.OrderID),
			slog.Int64("attempt", e.countedFailures), slog.Any("error", err))
		if e.countedFailures >= w.config.MaxFailures {
			return w.reject(ctx, e, Failed, err)
		}
	}
	e.alike = alike
	e.failures++
	w.retryLater(e, backoff(e.failures, w.config.MinBackoff, w.config.MaxBackoff))
	return nil
}

// errDeadly is the detail of a dead letter with the reason [Deadly].
var errDeadly = errors.New("fulfil: the process ended during each attempt, and not when others were written")

// suspicious reports whether an attempt at an entry may crash the process, so that Redis has to know of it before it
// begins. Attempts that remain there, because they ended their processes, have the entry rejected.
//
// That concerns only entries that were delivered suspiciously often, and only while the database takes others. During
// an outage an attempt lasts as long as the database hangs, and a process that ends meanwhile says nothing about the
// entry.
func (w *worker) suspicious(e entry) bool {
	return e.deliveries > w.config.MaxDeliveries && w.health.healthy()
}

// endAttempt records that an attempt has ended, or did not take place. If Redis does not answer, that is repeated later.
func (w *worker) endAttempt(ctx context.Context, e entry) {
	w.unsettledAttempts[e.key()] = e
	w.endAttempts(context.WithoutCancel(ctx))
}

// endAttempts records the ends of attempts.
func (w *worker) endAttempts(ctx context.Context) {
	maps.DeleteFunc(w.unsettledAttempts, func(_ entryID, e entry) bool {
		return w.reader.endAttempt(ctx, e, w.incarnation) == nil
	})
}

// retryLater queues an entry, due after a delay.
func (w *worker) retryLater(e retryEntry, delay time.Duration) {
	if e.due = time.Now().Add(delay); !w.inRetryQueue(e.entry) {
		w.retryQueue[e.key()] = e
	}
}

func (w *worker) inRetryQueue(e entry) bool {
	_, queued := w.retryQueue[e.key()]
	return queued
}

func (w *worker) withoutRetries(entries []entry) []entry {
	return slices.DeleteFunc(entries, w.inRetryQueue)
}

// retriesOf returns the number of queued entries of a stream.
func (w *worker) retriesOf(s *stream) (n int64) {
	for _, e := range w.retryQueue {
		if e.stream == s {
			n++
		}
	}
	return n
}

// reportRetryQueue reports the number of queued entries if it has changed.
func (w *worker) reportRetryQueue() {
	if n := len(w.retryQueue); n != w.reported {
		all := w.retrying.Add(int64(n - w.reported))
		w.reported = n
		w.config.Observer.retryQueue(all)
	}
}
