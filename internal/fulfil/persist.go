package fulfil

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/lock"
	"seckill/internal/order"
)

// persistAll writes entries in batches; see persist. Of several errors it returns the first.
func (w *worker) persistAll(ctx context.Context, entries []entry) (failed error) {
	for batch := range batches(entries, w.config.BatchSize) {
		failed = cmp.Or(failed, w.persist(ctx, batch))
	}
	return failed
}

// batches splits entries into parts of the same size, as near to size as possible. Entries of a stream with several
// orders do not add up to it exactly, and a second transaction for the few above it would cost as much as the first.
func batches(entries []entry, size int) iter.Seq[[]entry] {
	n := max(1, (len(entries)+size/2)/size)
	return slices.Chunk(entries, max(1, (len(entries)+n-1)/n))
}

// persist writes a batch and takes it out of the streams. Orders that the database does not take are in the retry queue
// afterwards, or their entries are split. Its error is one of Redis or of the context; the unfinished entries are then
// delivered again.
func (w *worker) persist(ctx context.Context, batch []entry) (failed error) {
	refused := w.retries.refusesAll()
	write, wait := divide(batch, func(e entry) bool { return !refused(e.stream) })
	w.setAside(ctx, wait)
	b := bisection{worker: w, parts: [][]entry{write}, failures: map[int64]int{}}
	for len(b.parts) > 0 && ctx.Err() == nil {
		part := b.parts[0]
		b.parts = b.parts[1:]
		failed = cmp.Or(failed, b.write(ctx, part))
	}
	return cmp.Or(failed, ctx.Err())
}

// bisection writes a batch, and finds the orders of it that fail: a part that fails is split in halves, whose turn
// comes after the parts that wait already.
type bisection struct {
	worker *worker
	parts  [][]entry
	// attempts is how many attempts have failed since the latest success with an error that says nothing about the orders.
	// pauseDue: the latest attempt was one of these, and no pause has followed yet.
	attempts int
	pauseDue bool
	// failures counts, by voucher, the failures of parts with orders of this voucher only. A success of the voucher resets it.
	failures map[int64]int
}

const (
	// After maxRefused failures of a voucher no more of its orders are tried: the database may take none, and those of
	// other vouchers must not wait until each was tried.
	maxRefused = 8
	// An attempt that fails after outageAfter or more counts as slowFailure. If somebody keeps the voucher's row locked,
	// each attempt waits for it until the database gives up.
	slowFailure = maxRefused / 2
)

// write writes a part of the batch.
func (b *bisection) write(ctx context.Context, part []entry) error {
	if part = slices.DeleteFunc(part, entry.isSplit); len(part) == 0 { // all are delivered again
		return nil
	}
	voucherID, one := voucherOf(part)
	if one && b.failures[voucherID] >= maxRefused {
		b.worker.setAside(ctx, part)
		return nil
	}
	if b.pauseDue && !b.pause(ctx) {
		return ctx.Err()
	}
	began := time.Now()
	statuses, err := b.worker.tryWrite(ctx, part)
	switch {
	case err == nil:
		b.attempts = 0
		for _, e := range part {
			delete(b.failures, e.stream.voucher)
		}
		return b.worker.complete(ctx, part, statuses)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	// A server that answers is not spared by a pause, and the next part may be of a voucher that it takes.
	b.pauseDue = saysNothing(err)
	if _, final := rejectionReason(err); one && !final {
		b.countFailure(ctx, part[0], time.Since(began), err)
	}
	switch half := len(part) / 2; {
	case half == 0:
		return b.worker.failedAlone(ctx, part[0], err)
	case one:
		b.parts = append(b.parts, part[:half], part[half:])
	default: // usually all of them are of vouchers that the database takes, but one
		b.parts = append(b.parts, byVoucher(part)...)
	}
	return nil
}

// pause sleeps after a failure. It reports false if ctx ended.
func (b *bisection) pause(ctx context.Context) bool {
	b.attempts++
	b.pauseDue = false
	return sleep(ctx, backoff(b.attempts, b.worker.config.MinBackoff, b.worker.config.MaxBackoff))
}

// countFailure counts a failure of a part whose orders are all of one voucher. e is the first of them. After maxRefused
// failures that say nothing about the orders, the voucher's retries pause.
func (b *bisection) countFailure(ctx context.Context, e entry, took time.Duration, err error) {
	of := e.stream.voucher
	if b.failures[of]++; took >= outageAfter {
		b.failures[of] += slowFailure - 1
	}
	if saysNothing(err) && b.failures[of] >= maxRefused {
		b.worker.warnRefused(ctx, e, err)
		b.worker.retries.pauseVoucher(b.worker.streamsLike(e.stream), took, true)
	}
}

// failedAlone handles an order that failed alone.
func (w *worker) failedAlone(ctx context.Context, e entry, err error) error {
	reason, final := rejectionReason(err)
	switch {
	case final && e.group != nil:
		w.split(ctx, e)
	case final:
		return w.reject(ctx, retryEntry{entry: e}, reason, err)
	default:
		if !saysNothing(err) {
			w.warnRefused(ctx, e, err)
		}
		w.queue(ctx, retryEntry{entry: e, failures: 1, alike: e.written().Load()})
	}
	return nil
}

// setAside has entries tried later, together once the database takes one of them.
func (w *worker) setAside(ctx context.Context, entries []entry) {
	for _, e := range entries {
		w.queue(ctx, retryEntry{entry: e, alike: e.written().Load(), setAside: true})
	}
}

// queue moves an order to the retry queue, or splits its entry.
func (w *worker) queue(ctx context.Context, e retryEntry) {
	if e.entry.group != nil {
		w.split(ctx, e.entry)
	} else {
		w.retries.add(e, w.config.MinBackoff)
	}
}

// tryWrite runs one transaction and records its result.
func (w *worker) tryWrite(ctx context.Context, batch []entry) ([]order.Status, error) {
	began := w.health.begin()
	statuses, err := w.write(ctx, accepted(batch))
	if errors.Is(err, order.ErrFutureEpoch) {
		statuses, err = w.writeAhead(ctx, batch, err)
	}
	w.config.Observer.Batch(len(batch), time.Since(began), err)
	w.health.wrote(ctx, began, err)
	if err != nil {
		return nil, err
	}
	for i, status := range statuses {
		if e := &batch[i]; status.Persisted() && e.isNew() {
			e.written().Add(1)
			w.retries.resume(e.stream)
		}
	}
	return statuses, nil
}

var (
	// errPanic: writing a batch panicked.
	errPanic = errors.New("fulfil: panic")
	// errStatusCount: the store returned more or fewer statuses than it was given orders.
	errStatusCount = errors.New("fulfil: the database did not answer for each order")
)

// write runs one transaction. A panic counts as an error of this batch, so that it does not end the other workers.
func (w *worker) write(ctx context.Context, orders []contract.Accepted) (statuses []order.Status, err error) {
	defer func() {
		if p := recover(); p != nil {
			statuses, err = nil, fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	statuses, err = w.config.Store.Persist(ctx, orders)
	if err == nil && len(statuses) != len(orders) {
		return nil, errStatusCount
	}
	return statuses, err
}

// writeAhead writes a batch again with orders of an epoch that the database does not have. If Redis has it, the
// database is behind: it was restored from older data, or an older copy took over. Redis was right to accept these
// orders, and the gate will close the voucher above that epoch. But no script has accepted an order of an epoch that is
// later than its bucket's: somebody else wrote the entry.
func (w *worker) writeAhead(ctx context.Context, batch []entry, refused error) ([]order.Status, error) {
	epochs, err := w.reader.epochs(ctx, streamsOfEntries(batch))
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %s", order.ErrUnavailable, err, refused.Error())
	}
	orders, ahead := accepted(batch), false
	for i, e := range batch {
		if epoch, known := epochs[e.stream]; !known || e.order.Epoch <= epoch { // a bucket that Redis has lost proves nothing
			orders[i].Ahead, ahead = true, true
		}
	}
	if !ahead {
		return nil, refused
	}
	return w.write(ctx, orders)
}

// complete takes a batch out of the streams after the database has decided on it.
func (w *worker) complete(ctx context.Context, batch []entry, statuses []order.Status) error {
	if err := w.config.Faults.Pass(ctx, lock.AfterCommit); err != nil {
		return err
	}
	var failed error
	persisted := make([]entry, 0, len(batch))
	for i, e := range batch {
		switch {
		case statuses[i].Persisted():
			persisted = append(persisted, e)
		case e.group != nil:
			w.split(ctx, e)
		default:
			failed = cmp.Or(failed, w.deadLetter(ctx, e, true, Before, "the order's row says so"))
		}
	}
	return cmp.Or(w.acknowledge(ctx, finished(persisted)), failed)
}

// acknowledge deletes entries from their streams and notifies the waiters of their orders.
func (w *worker) acknowledge(ctx context.Context, entries []entry) error {
	parts := byStream(entries)
	errs := w.reader.acknowledge(ctx, parts)
	now := time.Now()
	for i, part := range parts {
		if errs[i] != nil {
			continue
		}
		for _, e := range part {
			if !e.deleted {
				w.notifier.notify(e.order.OrderID)
				w.config.Observer.Persisted(now.Sub(e.order.At))
			}
		}
	}
	return cmp.Or(errs...)
}

// split gives up a delivery of several orders, for an order that must be handled alone. All orders are delivered again,
// one by one; those that are in the database by then only need an acknowledgement.
func (w *worker) split(ctx context.Context, e entry) {
	if e.isSplit() {
		return
	}
	e.group.split = true
	if err := w.reader.split(ctx, e); err != nil {
		w.streamsFailed(ctx, err, e.stream) // the entry is delivered again
	}
}

// streamsOfEntries returns the streams that some entries are of.
func streamsOfEntries(entries []entry) []*stream {
	streams := map[*stream]bool{}
	for _, e := range entries {
		streams[e.stream] = true
	}
	return slices.Collect(maps.Keys(streams))
}
