package fulfil

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// persistAll writes entries in batches; see persist. Of several errors it returns the first.
func (w *worker) persistAll(ctx context.Context, entries []entry) (failed error) {
	for batch := range batches(entries, w.config.BatchSize) {
		failed = cmp.Or(failed, w.persist(ctx, batch))
	}
	return failed
}

// persist writes a batch and takes it out of the streams. Orders that the database does not take are in the retry queue
// afterwards, or their entries are split. Its error is one of Redis or of the context; the unfinished entries are then
// delivered again.
func (w *worker) persist(ctx context.Context, batch []entry) (failed error) {
	b := bisection{worker: w, parts: [][]entry{w.withoutRefused(ctx, batch)}, failures: map[int64]int{}}
	for len(b.parts) > 0 && ctx.Err() == nil {
		part := b.parts[0]
		b.parts = b.parts[1:]
		failed = cmp.Or(failed, b.write(ctx, part))
	}
	return cmp.Or(failed, ctx.Err())
}

// bisection writes a batch, and finds the orders of it that fail: a part that fails is split in halves, whose turn comes
// after the parts that wait already.
type bisection struct {
	*worker
	parts [][]entry
	// attempts is how many attempts have failed since the latest success with an error that says nothing about the orders.
	// pauseDue: the latest attempt was one of these, and no pause has followed yet.
	attempts int
	pauseDue bool
	// failures counts, by voucher, the failures of parts with orders of this voucher only. A success of the voucher resets it.
	failures map[int64]int
}

const (
	// After maxRefused failures of a voucher no more of its orders are tried: the database may take none, and those of other
	// vouchers must not wait until each was tried.
	maxRefused = 8
	// An attempt that fails after outageAfter or more counts as slowFailure. If somebody keeps the voucher's row locked, each
	// attempt waits for it until the database gives up.
	slowFailure = maxRefused / 2
)

// write writes a part of the batch.
func (b *bisection) write(ctx context.Context, part []entry) error {
	part = slices.DeleteFunc(part, func(e entry) bool { return e.group != nil && e.group.split }) // delivered again
	if len(part) == 0 {
		return nil
	}
	voucherID, one := voucherOf(part)
	if one && b.failures[voucherID] >= maxRefused {
		b.setAside(ctx, part)
		return nil
	}
	if b.pauseDue && !b.pause(ctx) {
		return ctx.Err()
	}
	began := time.Now()
	statuses, err := b.tryWrite(ctx, part)
	switch {
	case err == nil:
		b.attempts = 0
		for _, e := range part {
			delete(b.failures, e.voucher)
		}
		return b.complete(ctx, part, statuses)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	// A server that answers is not spared by a pause, and the next part may be of a voucher that it takes.
	b.pauseDue = saysNothing(err)
	if _, final := rejectionReason(err); one && !final {
		b.countFailure(ctx, part, time.Since(began), err)
	}
	switch half := len(part) / 2; {
	case half == 0:
		return b.failedAlone(ctx, part[0], err)
	case one:
		b.parts = append(b.parts, part[:half], part[half:])
	default: // usually all of them are of vouchers that the database takes, but one
		b.parts = append(b.parts, byVoucher(part)...)
	}
	return nil
}

// countFailure counts a failure of a part that has orders of one voucher. If it says nothing about the orders, then after
// maxRefused of them the voucher's retries are paused.
func (b *bisection) countFailure(ctx context.Context, part []entry, took time.Duration, err error) {
	voucherID := part[0].voucher
	if b.failures[voucherID]++; took >= outageAfter {
		b.failures[voucherID] += slowFailure - 1
	}
	if saysNothing(err) && b.failures[voucherID] >= maxRefused {
		b.warnRefused(ctx, part[0], err)
		b.pauseVoucher(part[0].stream, took, true)
	}
}

// failedAlone handles an order that failed alone.
func (b *bisection) failedAlone(ctx context.Context, e entry, err error) error {
	reason, final := rejectionReason(err)
	switch {
	case final && e.group != nil:
		b.split(ctx, e)
	case final:
		return b.reject(ctx, retryEntry{entry: e}, reason, err)
	default:
		if !saysNothing(err) {
			b.warnRefused(ctx, e, err)
		}
		b.queue(ctx, retryEntry{entry: e, failures: 1, alike: e.written().Load()})
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
	if e.group != nil {
		w.split(ctx, e.entry)
	} else {
		w.retryLater(e, w.config.MinBackoff)
	}
}

// withoutRefused returns a batch without the entries of streams whose orders the database does not take. It sets these
// entries aside.
func (w *worker) withoutRefused(ctx context.Context, batch []entry) []entry {
	refused := w.refusesAll()
	return slices.DeleteFunc(slices.Clone(batch), func(e entry) bool {
		if refused(e.stream) {
			w.setAside(ctx, []entry{e})
		}
		return refused(e.stream)
	})
}

// pause sleeps after a failure. It reports false if ctx ended.
func (b *bisection) pause(ctx context.Context) bool {
	b.attempts++
	b.pauseDue = false
	return sleep(ctx, backoff(b.attempts, b.config.MinBackoff, b.config.MaxBackoff))
}

// voucherOf returns the voucher of some entries, and whether all of them are of it.
func voucherOf(entries []entry) (voucherID int64, one bool) {
	voucherID = entries[0].voucher
	return voucherID, !slices.ContainsFunc(entries, func(e entry) bool { return e.voucher != voucherID })
}

// byVoucher splits entries into parts of one voucher each.
func byVoucher(entries []entry) (parts [][]entry) {
	of := map[int64]int{} // the part of each voucher
	for _, e := range entries {
		i, known := of[e.voucher]
		if !known {
			i = len(parts)
			of[e.voucher], parts = i, append(parts, nil)
		}
		parts[i] = append(parts[i], e)
	}
	return parts
}

// deleted returns the entries that were deleted after their delivery.
func deleted(entries []entry) []entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return !e.deleted })
}

// tryWrite runs one transaction and records its result.
func (w *worker) tryWrite(ctx context.Context, batch []entry) ([]order.Status, error) {
	began := time.Now()
	w.health.begin(began)
	statuses, err := w.write(ctx, accepted(batch))
	if errors.Is(err, order.ErrFutureEpoch) {
		statuses, err = w.writeAhead(ctx, batch, err)
	}
	w.health.finish(began)
	w.config.Observer.batch(len(batch), time.Since(began), err)
	w.recordWrite(ctx, began, err)
	if err != nil {
		return nil, err
	}
	for i, status := range statuses {
		if e := &batch[i]; status.Persisted() && e.isNew() {
			e.written().Add(1)
			delete(w.retryPauses, e.stream)
			delete(w.retryPauses, nil)
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

// write runs one transaction. A panic counts as an error of this batch, so that it does
// not end the other workers.
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

// writeAhead writes a batch again with orders of an epoch that the database does not have. If Redis has it, the database
// is behind: it was restored from older data, or an older copy took over. Redis was right to accept these orders, and
// the gate will close the voucher above that epoch. But no script has accepted an order of an epoch that is later than
// its bucket's: somebody else wrote the entry.
func (w *worker) writeAhead(ctx context.Context, batch []entry, refused error) ([]order.Status, error) {
	epochs, err := w.reader.epochs(ctx, slices.Collect(maps.Keys(streamSet(batch))))
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
	persisted := make([]entry, 0, len(batch))
	for i, e := range batch {
		if statuses[i].Persisted() {
			persisted = append(persisted, e)
		}
	}
	failed := w.acknowledge(ctx, finished(persisted))
	for i, e := range batch {
		switch {
		case statuses[i].Persisted():
		case e.group != nil:
			w.split(ctx, e)
		default:
			failed = cmp.Or(failed, w.deadLetter(ctx, e, true, Before, "the order's row says so"))
		}
	}
	return failed
}

// split gives up a delivery of several orders, for an order that must be handled alone. All orders are delivered
// again, one by one; those that are in the database by then only need an acknowledgement.
func (w *worker) split(ctx context.Context, e entry) {
	if e.group.split {
		return
	}
	e.group.split = true
	if err := w.reader.split(ctx, e); err != nil {
		w.streamsFailed(ctx, err, e.stream) // the entry is delivered again
	}
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
				w.config.Observer.persisted(now.Sub(e.order.At))
			}
		}
	}
	return cmp.Or(errs...)
}

// transient reports whether an error means that the database could not be reached or did
// not answer in time.
func transient(err error) bool {
	return errors.Is(err, order.ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// saysNothing reports whether an error says nothing about the orders: the next ones, of any voucher, probably fail like
// these. A database that refuses an order, or does not have its voucher, may take those of other vouchers.
func saysNothing(err error) bool {
	return !mayBlameOrder(err) && !errors.Is(err, order.ErrVoucherMissing)
}

// mayBlameOrder reports whether an error may be the order's own fault: the database, or
// this program, objected while it processed that order.
func mayBlameOrder(err error) bool { return !transient(err) || errors.Is(err, order.ErrRefused) }

// rejectionReason returns the reason if the database refused an order for good.
func rejectionReason(err error) (Reason, bool) {
	for _, final := range []struct {
		err    error
		reason Reason
	}{
		{order.ErrAlreadyOrdered, AlreadyOrdered},
		{order.ErrStaleEpoch, StaleEpoch},
		{order.ErrFutureEpoch, FutureEpoch},
		{order.ErrIDTaken, IDTaken},
		{voucher.ErrSoldOut, SoldOut},
	} {
		if errors.Is(err, final.err) {
			return final.reason, true
		}
	}
	return "", false
}
