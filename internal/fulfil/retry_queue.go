package fulfil

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"
)

// retryEntry is an entry to try again later, alone: it failed while others were written,
// or was delivered suspiciously often, or its rejection could not be recorded.
type retryEntry struct {
	entry
	due time.Time
	// failures is how often it failed alone. alike is [entry.written] at the latest failure: if it has grown, others were
	// written since.
	failures int
	alike    int64
	// setAside: it was queued because the database did not take others of its voucher.
	setAside bool
	// undecided: which processes ended during earlier attempts was not known yet, or another process was trying it.
	undecided bool
	// awaited are the processes that were trying it, since when.
	awaited map[string]time.Time
	// countedFailures is the number of failures that followed the write of an order like this one,
	// which itself followed the previous failure.
	countedFailures int64
}

// retry tries the entries that are due, a batch of them at most: new ones must not wait for long. A stream of which
// some are refused, or one fails for a reason that is not the entry's own, is left for a while, and so are all of them in
// an outage. Those that have failed the fewest times come first, so that each has its turn. After maxRefusals or a slow
// attempt it ends, as new orders wait meanwhile.
func (w *worker) retry(ctx context.Context) {
	w.endAttempts(ctx)
	outages := 0 // vouchers that met one, since an entry was written
	refusals := 0
	for _, key := range w.dueRetries() {
		if ctx.Err() != nil {
			return
		}
		e, queued := w.retryQueue[key] // writing others together may have taken it out, or postponed it
		if !queued || e.due.After(time.Now()) || w.retryPaused(e.stream) {
			continue
		}
		delete(w.retryQueue, key)
		began := time.Now()
		result, err := w.tryAlone(ctx, e)
		took := time.Since(began)
		if err != nil {
			w.streamsFailed(ctx, err, e.stream)
		}
		switch result {
		case decided:
			if err != nil { // of Redis: each further entry would wait for it, too
				w.pauseRetries(e.stream, 0)
			}
		case written:
			outages = 0
			delete(w.refusals, e.stream)
			delete(w.retryPauses, e.stream)
			delete(w.retryPauses, nil)
			if e.untried() {
				w.retryTogether(ctx, e.stream)
			}
		case refused:
			if w.refusals[e.stream]++; w.refusals[e.stream] >= maxRefused {
				delete(w.refusals, e.stream)
				w.pauseRetries(e.stream, 0)
			}
			if refusals++; refusals >= maxRefusals {
				return
			}
		case outage:
			w.pauseVoucher(e.stream, took, e.untried())
			if outages++; outages > 1 { // it is not one voucher's row that somebody has locked
				w.pauseRetries(nil, took)
				return
			}
		}
		if took >= outageAfter {
			return
		}
	}
}

// maxRefusals is how many entries that are refused one call of [worker.retry] tries, of all streams together.
const maxRefusals = 4 * maxRefused

// dueRetries returns entries that are due. It looks for them every MinBackoff, because the queue may be long.
func (w *worker) dueRetries() (due []entryID) {
	now := time.Now()
	if now.Before(w.nextRetry) || w.retryPaused(nil) {
		return nil
	}
	w.nextRetry = now.Add(w.config.MinBackoff)
	type candidate struct {
		entryID
		failures int
	}
	var all []candidate
	for key, e := range w.retryQueue {
		if !e.due.After(now) && !w.retryPaused(e.stream) {
			all = append(all, candidate{key, e.failures})
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(a.failures, b.failures) })
	for _, c := range all[:min(len(all), w.config.BatchSize)] {
		due = append(due, c.entryID)
	}
	return due
}

// retryPause is how long no entry of a stream is tried again.
type retryPause struct {
	failures int
	until    time.Time
	// refusesAll: the database took none of several orders of the stream's voucher, or not even the first that was tried
	// of those set aside.
	refusesAll bool
}

// pauseRetries begins a pause of a stream, or of all streams if it is nil, after an attempt that took a time. The pause
// grows until an entry is written, and is not shorter than the attempt: other streams have half of the time at least.
func (w *worker) pauseRetries(s *stream, took time.Duration) {
	p := w.retryPauses[s]
	p.failures++
	p.until = time.Now().Add(max(took, backoff(p.failures, w.config.MinBackoff, w.config.MaxBackoff)))
	w.retryPauses[s] = p
}

// pauseVoucher begins a pause of a stream and the others of its voucher. With refusesAll they get no new entries either.
func (w *worker) pauseVoucher(of *stream, took time.Duration, refusesAll bool) {
	w.pauseRetries(of, took)
	for s := range w.streams {
		if s.voucher == of.voucher && s != of {
			w.pauseRetries(s, took)
		}
	}
	for s, p := range w.retryPauses {
		if s != nil && s.voucher == of.voucher && refusesAll {
			p.refusesAll = true
			w.retryPauses[s] = p
		}
	}
}

func (w *worker) retryPaused(s *stream) bool { return time.Now().Before(w.retryPauses[s].until) }

// refusesAll returns a function that reports whether the database takes no orders of a stream. That holds until the pause of
// the stream is over, and then as long as entries are set aside: one of them will show whether the database takes orders
// again. Meanwhile new entries of the stream stay in Redis, so that the retry queue does not grow, and no entry of the stream
// is tried together with others.
func (w *worker) refusesAll() func(*stream) bool {
	refused := map[*stream]bool{}
	for s, p := range w.retryPauses {
		if p.refusesAll {
			refused[s] = w.retryPaused(s)
		}
	}
	if len(refused) > 0 {
		for _, e := range w.retryQueue {
			if _, known := refused[e.stream]; known && e.untried() {
				refused[e.stream] = true
			}
		}
	}
	return func(s *stream) bool { return refused[s] }
}

// untried reports whether the entry was set aside without being tried, because the database did not take others of its
// voucher.
func (e *retryEntry) untried() bool { return e.failures == 0 && e.setAside }

// retryTogether writes the entries of a stream that were set aside untried, in batches, after one of them was written.
func (w *worker) retryTogether(ctx context.Context, s *stream) {
	var untried []entry
	for key, e := range w.retryQueue {
		if e.stream == s && e.untried() {
			untried = append(untried, e.entry)
			delete(w.retryQueue, key)
		}
	}
	slices.SortFunc(untried, func(a, b entry) int { return cmp.Compare(a.order.OrderID, b.order.OrderID) })
	if err := w.persistAll(ctx, untried); err != nil {
		w.streamsFailed(ctx, err, s)
	}
}

// retryResult is what became of an entry that was tried alone.
type retryResult int

const (
	decided retryResult = iota // it failed by its own fault, or was not tried
	written
	refused // the database objects to it, and perhaps to all of its voucher
	outage  // the error says nothing about the entry
)

// tryAlone writes a single entry.
func (w *worker) tryAlone(ctx context.Context, e retryEntry) (retryResult, error) {
	if e.malformed != nil {
		return decided, w.reject(ctx, e, Malformed, e.malformed)
	}
	suspicious := w.suspicious(e.entry)
	if suspicious || e.undecided {
		deadly, err := w.beginAttempt(ctx, &e)
		if err != nil || deadly || !suspicious {
			w.endAttempt(ctx, e.entry) // with an error it may have begun, for all that Redis says
		}
		switch {
		case errors.Is(err, errNotKnownYet), errors.Is(err, errAttempted):
			e.undecided = true
			w.retryLater(e, w.config.HeartbeatEvery)
			return decided, nil
		case err != nil:
			return decided, err
		case deadly:
			return decided, w.reject(ctx, e, Deadly, errDeadly)
		}
	}
	began := time.Now()
	inTime := func() {}
	if suspicious {
		inTime = w.endSlowAttempt(ctx, e.entry)
	}
	statuses, err := w.tryWrite(ctx, []entry{e.entry})
	inTime()
	if suspicious {
		w.endAttempt(ctx, e.entry)
	}
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

// requeue queues an entry again that failed alone, after an attempt that took a time. It rejects the entry if the failures are
// now proven to be its own: the database objects to it every time, and takes others that are like it in
// between. Orders of other vouchers prove nothing: a trigger or a foreign key may refuse one voucher.
func (w *worker) requeue(ctx context.Context, e retryEntry, took time.Duration, err error) error {
	alike := e.written().Load()
	if mayBlameOrder(err) && e.failures > 0 && alike > e.alike {
		e.countedFailures++
		w.config.Log.LogAttrs(ctx, slog.LevelWarn, "fulfil: an order fails while others are written",
			slog.Int64("voucher", e.voucher), slog.String("entry", e.id), slog.Int64("order", e.order.OrderID),
			slog.Int64("attempt", e.countedFailures), slog.Any("error", err))
		if e.countedFailures >= w.config.MaxFailures {
			return w.reject(ctx, e, Failed, err)
		}
	} else {
		w.warnRefused(ctx, e.entry, err)
	}
	e.alike = alike
	e.failures++
	w.retryLater(e, max(2*took, backoff(e.failures, w.config.MinBackoff, w.config.MaxBackoff)))
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
		slog.Int64("voucher", e.voucher), slog.Int64("order", e.order.OrderID), slog.Any("error", err))
}

// errDeadly is the detail of a dead letter with the reason [Deadly].
var errDeadly = errors.New("fulfil: several processes ended during attempts at the entry, and not when others were written")

// suspicious reports whether an attempt at an entry may crash the process, so that Redis has to know of it before it
// begins. Attempts that remain there, because they ended their processes, have the entry rejected. Those of processes
// that live are still under way, and prove nothing.
//
// That concerns only entries that were delivered suspiciously often, and only while the database takes others. During
// an outage, or while the voucher's row is locked, an attempt lasts for long, and a process that ends meanwhile says
// nothing about the entry; see endSlowAttempt.
func (w *worker) suspicious(e entry) bool {
	return e.deliveries > w.config.MaxDeliveries && w.health.healthy()
}

// errAttempted: a process that lives is trying the entry.
var errAttempted = errors.New("fulfil: another process is trying the entry")

// beginAttempt records an attempt. It reports whether the earlier ones of so many processes ended with their process
// that the entry is to blame.
//
// Its error is errAttempted while a process that lives is trying the entry. So attempts follow each other, and processes
// that are killed at the same moment are one attempt and not several. An attempt that lasts for longer than ClaimIdle is
// not waited for: Redis may have forgotten its end in a failover.
func (w *worker) beginAttempt(ctx context.Context, e *retryEntry) (deadly bool, err error) {
	others, err := w.reader.beginAttempt(ctx, e.entry, w.attempter())
	if err != nil || len(others) == 0 {
		return false, err
	}
	ended, alive, err := w.attempters(ctx, others)
	if err != nil {
		return false, err
	}
	before := e.awaited
	e.awaited = map[string]time.Time{}
	for _, process := range alive {
		since, awaited := before[process]
		if !awaited {
			since = time.Now()
		}
		if e.awaited[process] = since; time.Since(since) < w.config.ClaimIdle {
			err = errAttempted
		}
	}
	return err == nil && ended >= w.config.MaxAttempts, err
}

// endAttempt records that an attempt has ended, or did not take place. If Redis does not answer, that is repeated later.
func (w *worker) endAttempt(ctx context.Context, e entry) {
	if w.reader.endAttempt(context.WithoutCancel(ctx), e, w.attempter()) != nil {
		w.unsettledAttempts[e.key()] = e
	} else {
		delete(w.unsettledAttempts, e.key())
	}
}

// endSlowAttempt has Redis know that an attempt has ended once it takes for longer than outageAfter, unless the function
// that it returns is called before: the attempt waits for the database then, and a process that is killed meanwhile was not
// crashed by the entry.
func (w *worker) endSlowAttempt(ctx context.Context, e entry) (inTime func()) {
	recorded := make(chan struct{})
	timer := time.AfterFunc(outageAfter, func() {
		defer close(recorded)
		_ = w.reader.endAttempt(context.WithoutCancel(ctx), e, w.attempter()) // endAttempt follows
	})
	return func() {
		if !timer.Stop() {
			<-recorded
		}
	}
}

// endAttempts records the ends of attempts that Redis may not know. It stops when Redis does not answer.
func (w *worker) endAttempts(ctx context.Context) {
	for key, e := range w.unsettledAttempts {
		if w.reader.endAttempt(ctx, e, w.attempter()) != nil {
			return
		}
		delete(w.unsettledAttempts, key)
	}
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
