package fulfil

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/lock"
)

// worker is one consumer. It processes one batch at a time.
type worker struct {
	name     string
	config   *Config
	reader   streamReader
	watched  *watchList
	liveness *liveness
	health   *dbHealth
	notifier *notifier
	retries  *retryQueue
	attempts *attempts
	// claimer: this worker claims idle entries of other consumers; one worker per process does. nextClaim is when it does
	// so next.
	claimer   bool
	nextClaim time.Time
	// streams is the state of each watched stream; known is the list that it was built from, and changed is closed when
	// there is another one. joined are the streams that the worker has read since its start: it leaves their groups.
	streams map[*stream]*streamState
	known   *[]*stream
	changed <-chan struct{}
	joined  map[*stream]bool
	// retrying is the number of entries in the retry queues of all workers, and reported is this worker's share in it.
	retrying *atomic.Int64
	reported int
	// warnedOf is when a refusal of a stream was last logged.
	warnedOf map[*stream]time.Time
	// recovered is the latest count of pending entries that recoverPending has used.
	recovered *pendingEntries
	// moreExpected: the last batch was not full, so waiting for more entries pays off.
	moreExpected bool
	// activeStreams is the number of streams in the last batch; 0 before the first one.
	activeStreams int
	// perEntry are the orders of the new entries of all streams.
	perEntry ordersPerEntry
}

// streamState is what a worker knows of a stream.
type streamState struct {
	// replay: the worker has pending entries that it did not receive or did not finish. They are read again from after
	// replayAfter on.
	replay      bool
	replayAfter string
	// failures counts the failures since the last success. The stream is not read before retryAt.
	failures int
	retryAt  time.Time
	// perEntry are the orders of the pending entries.
	perEntry ordersPerEntry
}

// replayAll has all entries of the stream that are pending at the worker read again.
func (s *streamState) replayAll() { s.replay, s.replayAfter = true, "0" }

func newWorker(f *Fulfiller, n int) *worker {
	return &worker{
		name: fmt.Sprintf("%s-%d", f.config.Name, n+1), config: f.config, reader: f.reader, watched: f.streams,
		liveness: f.liveness, health: f.health, notifier: f.notifier, retries: newRetryQueue(f.config),
		attempts: &attempts{config: f.config, reader: f.reader, liveness: f.liveness, health: f.health, unsettled: map[entryID]entry{}},
		claimer:  n == 0,
		// A random offset spreads the claims of processes that start together.
		nextClaim: time.Now().Add(mathrand.N(f.config.ClaimEvery)),
		streams:   map[*stream]*streamState{}, known: &[]*stream{}, joined: map[*stream]bool{},
		retrying: &f.retrying, warnedOf: map[*stream]time.Time{}, perEntry: ledger.DefaultOrdersPerEntry,
	}
}

// run reads entries until stop ends. Its work in progress uses the context work, which ends later.
func (w *worker) run(stop, work context.Context) {
	for stop.Err() == nil {
		w.runOnce(stop, work)
	}
	w.attempts.settle(work)
	var failed error
	for s := range w.joined {
		failed = cmp.Or(failed, w.reader.removeConsumer(work, w.name, s))
	}
	if failed != nil { // the claimers of other processes remove it later
		w.config.warn(work, "a worker could not leave its group", failed)
	}
}

// runOnce processes retries first, then pending entries, then idle entries of other consumers, then new entries. A
// stream that fails does not block the others, and neither does a voucher that the database does not take. A node of a
// cluster that hangs blocks them for [nodeTimeout], once per [openFor].
func (w *worker) runOnce(stop, work context.Context) {
	if _, err := w.config.Generation(); err != nil { // what was read before is tried by others
		sleep(stop, w.config.Block)
		return
	}
	w.updateStreams()
	w.recoverPending(stop, work)
	w.retry(work)
	w.replayPending(stop, work)
	w.claimIdleEntries(stop, work)
	if w.moreExpected && w.config.Linger > 0 {
		sleep(stop, w.config.Linger)
	}
	if stop.Err() == nil {
		w.processNew(stop, work)
	}
	w.reportRetryQueue()
}

// updateStreams adds and removes the streams that the Fulfiller has begun or ceased to watch. A new one is replayed
// first: with a name that survived a restart, this worker may have pending entries from before.
func (w *worker) updateStreams() {
	w.changed = *w.watched.changed.Load() // before the list, so that no other list is missed
	watched := w.watched.list.Load()
	if watched == w.known {
		return
	}
	w.known = watched
	read := make(map[*stream]bool, len(*watched))
	for _, s := range *watched {
		read[s] = true
		if w.streams[s] == nil {
			w.streams[s] = &streamState{perEntry: ledger.DefaultOrdersPerEntry}
			w.streams[s].replayAll()
			w.joined[s] = true
		}
	}
	for s := range w.streams {
		if !read[s] {
			delete(w.streams, s)
			delete(w.warnedOf, s)
			w.retries.forget(s)
		}
	}
}

// processNew reads new entries from the streams that are ready, and processes them.
func (w *worker) processNew(stop, work context.Context) {
	ready := w.readyStreams()
	block := w.config.Block
	switch replay := w.replayDue(); {
	case len(ready) == 0 && replay:
		return
	case len(*w.known) == 0:
		w.await(stop, block)
		return
	case len(ready) == 0:
		w.await(stop, min(block, w.config.MinBackoff))
		return
	case replay:
		block = time.Millisecond
	}
	// A read takes up to share entries of each stream. If many streams are active, like those of a voucher with many
	// buckets, their shares add up to one batch. Taking more would withhold entries from other processes.
	share := w.perEntry.entriesFor(w.config.BatchSize / max(1, w.activeStreams))
	entries := w.readNew(work, ready, share, block)
	parts := byStream(entries)
	full := slices.ContainsFunc(parts, func(part []entry) bool { return countIDs(part) >= share })
	if len(parts) > 0 { // an empty read says nothing about the next one
		w.activeStreams = len(parts)
	}
	w.moreExpected = len(entries) > 0 && len(entries) < w.config.BatchSize && !full
	w.process(work, entries)
}

// await waits for another list of streams, for a time at most.
func (w *worker) await(stop context.Context, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-w.changed:
	case <-timer.C:
	case <-stop.Done():
	}
}

// ordersPerEntry is how many orders the latest entries had, on average. It begins with the most that they have by
// default, so that a first batch does not take more than its share.
type ordersPerEntry float64

// entriesFor returns how many entries have about n orders.
func (o ordersPerEntry) entriesFor(n int) int { return max(1, int(float64(n)/float64(o))) }

func (o *ordersPerEntry) add(entries []entry) {
	if n := countIDs(entries); n > 0 {
		*o = (*o + ordersPerEntry(len(entries))/ordersPerEntry(n)) / 2
	}
}

// readNew reads new entries, up to share of each stream. If that fails, all of these streams are replayed, because
// entries may have been delivered with the lost reply.
func (w *worker) readNew(ctx context.Context, streams []*stream, share int, block time.Duration) []entry {
	entries, err := w.reader.readNew(ctx, w.name, streams, share, block, w.changed)
	if err != nil {
		failed := streams
		if some, ok := errors.AsType[*readError](err); ok {
			failed = some.streams
		}
		for _, s := range streams {
			w.streams[s].replayAll()
		}
		w.streamsFailed(ctx, err, failed...)
	}
	w.perEntry.add(entries)
	return entries
}

// readyStreams lists the streams that new entries are read from. Left out are the streams that are paused after a
// failure, those with pending entries to replay, and those whose orders the database does not take.
func (w *worker) readyStreams() []*stream {
	refused := w.retries.refusesAll()
	return slices.DeleteFunc(w.availableStreams(), func(s *stream) bool { return w.streams[s].replay || refused(s) })
}

// availableStreams lists the streams that are not paused after a failure.
func (w *worker) availableStreams() []*stream {
	now := time.Now()
	return slices.DeleteFunc(slices.Clone(*w.known), func(s *stream) bool { return w.streams[s].retryAt.After(now) })
}

// streamsFailed pauses streams after a failure. After the pause all pending entries of the worker are replayed.
func (w *worker) streamsFailed(ctx context.Context, err error, streams ...*stream) {
	for n, s := range streams {
		state := w.streams[s]
		if state == nil {
			continue // no longer watched: its entries are claimed from this worker later
		}
		if state.failures++; state.failures == 1 && n == 0 {
			w.config.warn(ctx, "a stream failed, retrying", err)
		}
		state.replayAll()
		state.retryAt = time.Now().Add(backoff(state.failures, w.config.MinBackoff, w.config.MaxBackoff))
		if redis.HasErrorPrefix(err, "NOGROUP") { // Redis was emptied, or the voucher was removed from it
			switch err := w.reader.ensureGroup(ctx, s); {
			case err == nil:
				state.retryAt = time.Time{}
			case errors.Is(err, errNoVoucher): // until it is opened again, or no longer watched
				state.retryAt = time.Now().Add(w.config.Block)
			}
		}
	}
}

// process processes delivered entries. If that fails, their streams are replayed.
func (w *worker) process(ctx context.Context, entries []entry) {
	if len(entries) == 0 {
		return
	}
	if err := w.processEntries(ctx, entries); err != nil {
		w.streamsFailed(ctx, err, streamsOfEntries(entries)...)
	}
}

func (w *worker) processEntries(ctx context.Context, entries []entry) error {
	if err := w.config.Faults.Pass(ctx, lock.CriticalSection); err != nil {
		return err
	}
	d := sortDelivered(entries, w.config.MaxDeliveries)
	failed := w.acknowledge(ctx, d.deleted)
	for _, e := range d.split {
		w.split(ctx, e)
	}
	for _, e := range d.alone {
		w.retries.add(retryEntry{entry: e}, 0)
	}
	failed = cmp.Or(failed, w.persistAll(ctx, d.together))
	w.retry(ctx)
	return failed
}

// delivered holds the entries of one read, sorted by what the worker does with them.
type delivered struct {
	together []entry // to write in batches
	alone    []entry // malformed, or delivered suspiciously often: to refuse or write alone
	split    []entry // the same, in an entry with other orders
	deleted  []entry // since their delivery: to acknowledge
}

func sortDelivered(entries []entry, maxDeliveries int64) delivered {
	d := delivered{together: make([]entry, 0, len(entries))}
	for _, e := range entries {
		switch suspect := e.malformed != nil || e.deliveries > maxDeliveries; {
		case e.deleted:
			d.deleted = append(d.deleted, e)
		case suspect && e.group != nil:
			d.split = append(d.split, e)
		case suspect:
			d.alone = append(d.alone, e)
		default:
			d.together = append(d.together, e)
		}
	}
	return d
}

// streamsLike returns a stream, and the others of its voucher that are watched.
func (w *worker) streamsLike(s *stream) []*stream {
	like := []*stream{s}
	for other := range w.streams {
		if other.voucher == s.voucher && other != s {
			like = append(like, other)
		}
	}
	return like
}

// reportRetryQueue reports the number of queued entries if it has changed.
func (w *worker) reportRetryQueue() {
	if n := len(w.retries.entries); n != w.reported {
		all := w.retrying.Add(int64(n - w.reported))
		w.reported = n
		w.config.Observer.RetryQueue(all)
	}
}

// backoff returns the pause after the nth failure. It doubles each time up to longest, less a random part of up to one
// half.
func backoff(n int, first, longest time.Duration) time.Duration {
	d := min(first<<min(n-1, 20), longest)
	return d - mathrand.N(d/2+1)
}

// sleep sleeps for d, or until ctx ends. It reports whether it slept for d.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func randomName() string { return strings.ToLower(rand.Text()[:8]) }
