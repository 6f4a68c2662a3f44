package fulfil

import (
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
	// countedFailures is the number of failures that followed the write of an order like this one,
	// which itself followed the previous failure.
	countedFailures int64
}

// retry tries the entries that are due. During an outage it stops at the first failure;
// the order is random, so that no entry always comes first.
func (w *worker) retry(ctx context.Context) {
	w.endAttempts(ctx)
	now := time.Now()
	var due []retryEntry
	w.retryQueue = slices.DeleteFunc(w.retryQueue, func(e retryEntry) bool {
		if e.due.After(now) {
			return false
		}
		due = append(due, e)
		return true
	})
	rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	for i, e := range due {
		outage, err := w.tryAlone(ctx, e)
		if err != nil {
			w.streamsFailed(ctx, err, e.stream)
		}
		if outage {
			for _, other := range due[i+1:] {
				w.retryLater(other, backoff(e.failures+1, w.config.MinBackoff, w.config.MaxBackoff))
			}
			return
		}
	}
}

// attempt identifies an attempt to write an entry alone.
type attempt struct {
	stream *stream
	id     string
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
	w.unsettledAttempts[attempt{stream: e.stream, id: e.id}] = e
	w.endAttempts(context.WithoutCancel(ctx))
}

// endAttempts records the ends of attempts.
func (w *worker) endAttempts(ctx context.Context) {
	maps.DeleteFunc(w.unsettledAttempts, func(_ attempt, e entry) bool {
		return w.reader.endAttempt(ctx, e, w.incarnation) == nil
	})
}

// retryLater queues an entry, due after a delay.
func (w *worker) retryLater(e retryEntry, delay time.Duration) {
	if e.due = time.Now().Add(delay); !w.inRetryQueue(e.entry) {
		w.retryQueue = append(w.retryQueue, e)
	}
}

func (w *worker) inRetryQueue(e entry) bool {
	return slices.ContainsFunc(w.retryQueue, func(r retryEntry) bool { return r.stream == e.stream && r.id == e.id })
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
