package fulfil

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// retryQueue has the entries of a worker that wait to be tried again, alone, and says when: it knows the streams and
// vouchers whose orders the database does not take. Its methods call neither Redis nor the database, and none of its
// entries is lost with it: each is pending in its stream.
//
// An entry:
//
//	         add             it is due, and nothing pauses             take
//	absent ───────▶ waiting ───────────────────────────────▶ ready ───────────▶ absent, and tried alone
//	                   ▲                                                           │
//	                   └───────────────────────────────────────────────────────────┘ it failed: add, due later
//
// A stream:
//
//	        pause                     its time is over
//	open ───────────▶ paused ────────────────────────────────────────────────▶ open
//	  │                  │ refusesAll
//	  │ refusesAll       ▼            its time is over, and no entry of it is set aside
//	  └──────────▶ refusing all ─────────────────────────────────────────────▶ open; a further pause leads back
//
//	state         from                                          its entries are tried   new entries are read
//	open          the beginning                                 yes                     yes
//	paused        maxRefused of its entries were refused, or    no                      yes
//	              an attempt met an outage
//	refusing all  the database took none of several orders of   no; one of those set    no: the queue has all of
//	              the voucher                                   aside, once its time    the voucher's orders that
//	                                                            is over                 are pending
//
// An entry that is written opens its stream, whatever its state. Outages at two vouchers pause all streams, until an
// entry of any is written.
type retryQueue struct {
	config  *Config
	entries map[entryID]retryEntry
	// pauses are the pauses of streams after failures, and outage is the pause of all of them.
	pauses map[*stream]retryPause
	outage retryPause
	// refusals counts the entries of a stream that were tried alone and refused, since one was written or the latest pause
	// of the stream.
	refusals map[*stream]int
	// Before nextLook the queue is not looked through again.
	nextLook time.Time
}

// retryEntry is an entry to try again later, alone: it failed while others were written, or was delivered suspiciously
// often, or its rejection could not be recorded, or the database did not take others of its voucher.
type retryEntry struct {
	entry entry
	due   time.Time
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
	// countedFailures is the number of failures that followed the write of an order like this one, which itself followed
	// the previous failure.
	countedFailures int64
}

// untried reports whether the entry was set aside without being tried, because the database did not take others of its
// voucher.
func (e *retryEntry) untried() bool { return e.failures == 0 && e.setAside }

// retryPause is how long no entry of a stream is tried again.
type retryPause struct {
	failures int
	until    time.Time
	// refusesAll: the database took none of several orders of the stream's voucher, or not even the first that was tried
	// of those set aside.
	refusesAll bool
}

func newRetryQueue(c *Config) *retryQueue {
	return &retryQueue{config: c, entries: map[entryID]retryEntry{}, pauses: map[*stream]retryPause{}, refusals: map[*stream]int{}}
}

// add queues an entry, due after a delay, unless it is queued.
func (q *retryQueue) add(e retryEntry, delay time.Duration) {
	if e.due = time.Now().Add(delay); !q.has(e.entry) {
		q.entries[e.entry.key()] = e
	}
}

func (q *retryQueue) has(e entry) bool {
	_, queued := q.entries[e.key()]
	return queued
}

// count returns the number of queued entries of a stream.
func (q *retryQueue) count(s *stream) (n int64) {
	for key := range q.entries {
		if key.stream == s {
			n++
		}
	}
	return n
}

// due lists entries that may be tried, a batch of them at most. Those that have failed the fewest times come first, so
// that each has its turn. It looks for them every MinBackoff, because the queue may be long.
func (q *retryQueue) due() (due []entryID) {
	now := time.Now()
	if now.Before(q.nextLook) || now.Before(q.outage.until) {
		return nil
	}
	q.nextLook = now.Add(q.config.MinBackoff)
	type candidate struct {
		entryID
		failures int
	}
	var all []candidate
	for key, e := range q.entries {
		if q.ready(e) {
			all = append(all, candidate{key, e.failures})
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(a.failures, b.failures) })
	for _, c := range all[:min(len(all), q.config.BatchSize)] {
		due = append(due, c.entryID)
	}
	return due
}

func (q *retryQueue) ready(e retryEntry) bool {
	return !e.due.After(time.Now()) && !q.paused(e.entry.stream)
}

// take takes an entry out that was due, unless it was taken or postponed meanwhile.
func (q *retryQueue) take(key entryID) (e retryEntry, taken bool) {
	e, queued := q.entries[key]
	if !queued || !q.ready(e) {
		return e, false
	}
	delete(q.entries, key)
	return e, true
}

// takeUntried takes out the entries of a stream that were set aside untried, by order.
func (q *retryQueue) takeUntried(s *stream) (untried []entry) {
	for key, e := range q.entries {
		if key.stream == s && e.untried() {
			untried = append(untried, e.entry)
			delete(q.entries, key)
		}
	}
	slices.SortFunc(untried, func(a, b entry) int { return cmp.Compare(a.order.OrderID, b.order.OrderID) })
	return untried
}

// longer returns a pause that begins now, after an attempt that took a time. It is not shorter than the attempt: others
// have half of the time at least.
func (q *retryQueue) longer(p retryPause, took time.Duration) retryPause {
	p.failures++
	p.until = time.Now().Add(max(took, backoff(p.failures, q.config.MinBackoff, q.config.MaxBackoff)))
	return p
}

// pause begins a pause of a stream, and pauseAll one of all streams. The pauses grow until an entry is written.
func (q *retryQueue) pause(s *stream, took time.Duration) { q.pauses[s] = q.longer(q.pauses[s], took) }

func (q *retryQueue) pauseAll(took time.Duration) { q.outage = q.longer(q.outage, took) }

// pauseVoucher begins a pause of a voucher's streams. With refusesAll they get no new entries either.
func (q *retryQueue) pauseVoucher(streams []*stream, took time.Duration, refusesAll bool) {
	for _, s := range streams {
		p := q.longer(q.pauses[s], took)
		p.refusesAll = p.refusesAll || refusesAll
		q.pauses[s] = p
	}
}

func (q *retryQueue) paused(s *stream) bool { return time.Now().Before(q.pauses[s].until) }

// resume ends the pauses, since an order of the stream was written.
func (q *retryQueue) resume(s *stream) {
	delete(q.pauses, s)
	q.outage = retryPause{}
}

// written records that an entry that was tried alone was written.
func (q *retryQueue) written(s *stream) {
	delete(q.refusals, s)
	q.resume(s)
}

// refused records that an entry that was tried alone was refused. After maxRefused of them its stream is paused.
func (q *retryQueue) refused(s *stream) {
	if q.refusals[s]++; q.refusals[s] >= maxRefused {
		delete(q.refusals, s)
		q.pause(s, 0)
	}
}

// forget drops what is known of a stream that is no longer watched, but not its entries.
func (q *retryQueue) forget(s *stream) {
	delete(q.pauses, s)
	delete(q.refusals, s)
}

// refusesAll returns a function that reports whether the database takes no orders of a stream. That holds until the
// pause of the stream is over, and then as long as entries are set aside: one of them will show whether the database
// takes orders again. Meanwhile new entries of the stream stay in Redis, so that the queue does not grow, and no entry
// of the stream is tried together with others.
func (q *retryQueue) refusesAll() func(*stream) bool {
	refused := map[*stream]bool{}
	for s, p := range q.pauses {
		if p.refusesAll {
			refused[s] = q.paused(s)
		}
	}
	if len(refused) > 0 {
		for key, e := range q.entries {
			if _, known := refused[key.stream]; known && e.untried() {
				refused[key.stream] = true
			}
		}
	}
	return func(s *stream) bool { return refused[s] }
}
