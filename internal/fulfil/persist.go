package fulfil

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// persistAll writes entries in batches; see persist. Of several errors it returns the first.
func (w *worker) persistAll(ctx context.Context, entries []entry) (failed error) {
	rest := entries
	for batch := range batches(entries, w.config.BatchSize) {
		rest = rest[len(batch):]
		failed = cmp.Or(failed, w.persist(ctx, batch, rest))
	}
	return failed
}

// persist writes a batch and takes it out of the streams, however long the database is
// unavailable. Its error is one of Redis or of the context; the unfinished entries are
// then delivered again.
//
// A batch that fails is split in halves. That finds a bad entry, and costs little if there
// is none: in an outage each half is just one more attempt after the same pause.
//
// The worker has other entries in hand, which are written later: those of rest.
func (w *worker) persist(ctx context.Context, batch, rest []entry) error {
	b := bisection{worker: w, refused: map[*stream]int{}}
	failed := b.write(ctx, batch)
	for len(b.failed) > 0 && ctx.Err() == nil {
		var failing []retryEntry
		for _, e := range b.failed {
			switch {
			case e.group != nil && e.group.split: // it is delivered again
			case w.health.writes() == e.writes:
				failing = append(failing, e)
			case e.group != nil: // others were written since: it may be the order's own fault
				w.split(ctx, e.entry)
			default:
				w.retryLater(e, w.config.MinBackoff)
			}
		}
		if b.failed = nil; len(failing) == 0 {
			break
		}
		// Nothing was written since: either an outage, or these entries are all bad. New
		// entries show which it is. They are written with these, so they need not wait.
		waiting := w.leaveRoom(ctx, failing)
		if !b.pause(ctx) {
			break
		}
		waiting = append(waiting, w.readMore(ctx, w.config.BatchSize-len(waiting), slices.Concat(waiting, rest))...)
		failed = cmp.Or(failed, b.write(ctx, waiting))
	}
	return cmp.Or(failed, ctx.Err())
}

// bisection writes one batch and finds the entries that fail.
type bisection struct {
	*worker
	failures int          // since the latest success
	pauseDue bool         // the latest write failed, and no pause followed yet
	failed   []retryEntry // entries that failed alone
	// refused counts the entries of a stream that the database refused alone, since one was written.
	refused map[*stream]int
}

// After maxRefused refused orders of a stream, no more orders of it are tried: the database may refuse all orders of the
// voucher, and those of others must not wait until each was tried.
const maxRefused = 8

func (b *bisection) write(ctx context.Context, batch []entry) error {
	if len(batch) == 0 {
		return nil
	}
	if s := batch[0].stream; b.refused[s] >= maxRefused && !slices.ContainsFunc(batch, func(e entry) bool { return e.stream != s }) {
		b.setAside(ctx, batch)
		return nil
	}
	if b.pauseDue && !b.pause(ctx) {
		return ctx.Err()
	}
	statuses, err := b.tryWrite(ctx, batch)
	switch {
	case err == nil:
		b.failures = 0
		for _, e := range batch {
			delete(b.refused, e.stream)
		}
		return b.complete(ctx, batch, statuses)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	reason, final := rejectionReason(err)
	if len(batch) == 1 && final && batch[0].group != nil {
		b.split(ctx, batch[0])
		return nil
	}
	if len(batch) == 1 && final {
		return b.reject(ctx, retryEntry{entry: batch[0]}, reason, err)
	}
	if len(batch) == 1 {
		if !saysNothing(err) {
			b.refused[batch[0].stream]++
			b.warnRefused(ctx, batch[0], err)
		}
		b.failed = append(b.failed, retryEntry{entry: batch[0], failures: 1, writes: b.health.writes(), alike: batch[0].written().Load()})
	}
	// A server that answers is not spared by a pause, and the other half may be of a voucher that it takes.
	if b.pauseDue = saysNothing(err); len(batch) == 1 {
		return nil
	}
	half := len(batch) / 2
	return cmp.Or(b.write(ctx, batch[:half]), b.write(ctx, batch[half:]))
}

// setAside has entries tried later, together once the database takes one of them.
func (b *bisection) setAside(ctx context.Context, entries []entry) {
	for _, e := range entries {
		if e.group != nil {
			b.split(ctx, e)
		} else {
			b.retryLater(retryEntry{entry: e, alike: e.written().Load(), setAside: true}, b.config.MinBackoff)
		}
	}
}

// pause sleeps after a failure: once between two attempts, so that the end of an outage is noticed after MaxBackoff at
// the latest. It reports false if ctx ended.
func (b *bisection) pause(ctx context.Context) bool {
	b.failures++
	b.pauseDue = false
	return sleep(ctx, backoff(b.failures, b.config.MinBackoff, b.config.MaxBackoff))
}

// leaveRoom returns the first half of a batch of entries that fail, and splits the others or moves them to the retry
// queue. Otherwise a batch of orders that the database refuses, all of one voucher, would leave no room for the orders
// of other vouchers. It may return none: an entry of the stream that is split takes all its orders along.
func (w *worker) leaveRoom(ctx context.Context, failing []retryEntry) (first []entry) {
	for _, e := range failing {
		switch {
		case e.group != nil && e.group.split: // it is delivered again
		case len(first) < w.config.BatchSize/2:
			first = append(first, e.entry)
		case e.group != nil:
			w.split(ctx, e.entry)
		default:
			w.retryLater(e, w.config.MinBackoff)
		}
	}
	return slices.DeleteFunc(first, func(e entry) bool { return e.group != nil && e.group.split })
}

// readMore reads up to n more entries without waiting for them, to be written together with entries that fail. Of a
// stream that is to be replayed, as all are after a start and after a read that failed, it reads the next page: else its
// orders would wait for those that fail. The pages also have the entries that the worker has in hand; these are left out.
func (w *worker) readMore(ctx context.Context, n int, inHand []entry) []entry {
	streams := w.availableStreams()
	if n < 1 || len(streams) == 0 || w.stopping() {
		return nil
	}
	rand.Shuffle(len(streams), func(i, j int) { streams[i], streams[j] = streams[j], streams[i] })
	streams = streams[:min(len(streams), n)]
	share := n / len(streams)
	held := make(map[entryID]bool, len(inHand))
	for _, e := range inHand {
		held[e.key()] = true
	}
	var ready []*stream
	var more []entry
	for _, s := range streams {
		if w.streams[s].replay {
			more = append(more, w.replayPage(ctx, s, share)...)
		} else {
			ready = append(ready, s)
		}
	}
	more = slices.DeleteFunc(more, func(e entry) bool { return held[e.key()] })
	if err := w.acknowledge(ctx, deleted(more)); err != nil {
		w.warn(ctx, "deleted entries could not be acknowledged, retrying later", err) // when they are claimed
	}
	if len(ready) > 0 {
		more = append(more, w.readNew(ctx, ready, w.perEntry.entriesFor(share), time.Millisecond)...)
	}
	return w.selectBatch(ctx, more)
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
	w.health.finish(began)
	w.config.Observer.batch(len(batch), time.Since(began), err)
	w.recordWrite(ctx, began, err)
	if err != nil {
		return nil, err
	}
	for i, status := range statuses {
		if status.Persisted() && batch[i].isNew() {
			batch[i].written().Add(1)
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
func (w *worker) write(ctx context.Context, orders []order.Accepted) (statuses []order.Status, err error) {
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
		{order.ErrIDTaken, IDTaken},
		{voucher.ErrSoldOut, SoldOut},
	} {
		if errors.Is(err, final.err) {
			return final.reason, true
		}
	}
	return "", false
}
