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
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
)

// worker is one consumer: it has one batch in its hands at a time.
type worker struct {
	*Fulfiller
	name string
	// claims: this worker is the one of its process that takes over what others had
	// for too long.
	claims  bool
	claimAt time.Time
	// views are what it knows of the streams that are watched, seen the same in order.
	views  map[*stream]*view
	seen   *[]*stream
	parked []parked
	// flowing: the last batch was not full, and more is to be expected.
	flowing bool
	// hot is of how many streams the last batch was; at first 0.
	hot int
}

// view is what a worker knows of a stream.
type view struct {
	// behind: entries may have been delivered that the worker never got to see, or did
	// not finish. It has looked up to the entry after.
	behind bool
	after  string
	// failures are those since the stream was last in order; it is left alone until due.
	failures int
	due      time.Time
}

// parked is an entry that is to be tried again later, alone.
type parked struct {
	entry
	due time.Time
}

func newWorker(f *Fulfiller, n int) *worker {
	return &worker{
		Fulfiller: f, name: fmt.Sprintf("%s-%d", f.config.Name, n+1), claims: n == 0, views: map[*stream]*view{}, seen: &[]*stream{},
		// Processes that start together do not claim together.
		claimAt: time.Now().Add(mathrand.N(f.config.ClaimEvery)),
	}
}

// run reads until stop ends. What it has begun is done under work, which ends later.
func (w *worker) run(stop, work context.Context) {
	for stop.Err() == nil {
		w.turn(stop, work)
	}
	var failed error
	for _, s := range *w.seen {
		failed = cmp.Or(failed, w.inbox.leave(work, w.name, s))
	}
	if failed != nil { // those who stay tidy up
		w.complain(work, "a worker could not leave its group", failed)
	}
}

// turn is one round: what is left from before, what others have left, what is new. A
// stream that fails, as one of a cluster may, does not hold up the others; a node that
// hangs does so for [patience], once in [hungFor].
func (w *worker) turn(stop, work context.Context) {
	w.look()
	w.retry(work)
	w.resume(stop, work)
	w.takeOver(stop, work)
	if w.flowing && w.config.Linger > 0 {
		sleep(stop, w.config.Linger)
	}
	if stop.Err() == nil {
		w.read(stop, work)
	}
}

// read goes on with what is new, in the streams where nothing is left from before.
func (w *worker) read(stop, work context.Context) {
	ready := slices.DeleteFunc(w.fit(), func(s *stream) bool { return w.views[s].behind })
	if len(ready) == 0 {
		sleep(stop, min(w.config.Block, w.config.FirstPause))
		return
	}
	// A read takes so much of each stream. Where many of them flow, as those of a voucher in
	// many buckets do, their shares make up a batch together: to have more in hand would
	// keep it from other processes.
	share := max(1, w.config.BatchSize/max(1, w.hot))
	entries, err := w.inbox.fresh(work, w.name, ready, share, w.config.Block)
	if err != nil {
		failed := ready
		if some, ok := errors.AsType[*readError](err); ok {
			failed = some.of
		}
		for _, s := range ready { // of any of them something may have been delivered
			w.views[s].behind, w.views[s].after = true, "0"
		}
		w.fail(work, err, failed...)
	}
	parts := byStream(entries)
	full := slices.ContainsFunc(parts, func(part []entry) bool { return len(part) >= share })
	if len(parts) > 0 { // a moment without entries says nothing about the next ones
		w.hot = len(parts)
	}
	w.flowing = len(entries) > 0 && len(entries) < w.config.BatchSize && !full
	w.take(work, entries)
}

// look takes note of the streams that came and went. From one that is new, what this
// worker's name holds comes first: it may be that of a process that was killed.
func (w *worker) look() {
	now := w.watched.Load()
	if now == w.seen {
		return
	}
	w.seen = now
	for _, s := range *now {
		if w.views[s] == nil {
			w.views[s] = &view{behind: true, after: "0"}
		}
	}
	for s := range w.views {
		if !slices.Contains(*now, s) {
			delete(w.views, s)
		}
	}
}

// fit lists the streams that are not left alone for now.
func (w *worker) fit() []*stream {
	now := time.Now()
	return slices.DeleteFunc(slices.Clone(*w.seen), func(s *stream) bool { return w.views[s].due.After(now) })
}

// fail leaves streams alone for a while. Then everything that the worker holds of them
// is delivered to it again.
func (w *worker) fail(ctx context.Context, err error, streams ...*stream) {
	for n, s := range streams {
		v := w.views[s]
		if v == nil {
			continue // it is not watched any more: whoever claims comes upon what is left
		}
		if v.failures++; v.failures == 1 && n == 0 {
			w.complain(ctx, "a stream failed, trying until it does not", err)
		}
		v.behind, v.after = true, "0"
		v.due = time.Now().Add(pause(v.failures, w.config.FirstPause, w.config.MaxPause))
		if redis.HasErrorPrefix(err, "NOGROUP") && w.inbox.prepare(ctx, s) == nil { // Redis was emptied
			v.due = time.Time{}
		}
	}
}

// resume goes on with what was delivered to this worker and not finished.
func (w *worker) resume(stop, work context.Context) {
	for _, s := range w.fit() {
		for v := w.views[s]; v.behind && !v.due.After(time.Now()) && stop.Err() == nil; {
			entries, err := w.inbox.held(work, w.name, s, v.after, w.config.BatchSize)
			switch {
			case err != nil:
				w.fail(work, err, s)
			case len(entries) == 0:
				v.behind, v.failures = false, 0
			default:
				v.after = entries[len(entries)-1].id
				w.take(work, w.withoutParked(entries))
			}
		}
	}
}

// takeOver goes on with what others had for too long.
func (w *worker) takeOver(stop, work context.Context) {
	if !w.claims || time.Now().Before(w.claimAt) {
		return
	}
	w.claimAt = time.Now().Add(w.config.ClaimEvery)
	for _, s := range w.fit() {
		// An empty page with a cursor is no end: a claim looks at so many entries only.
		for cursor := firstPage; stop.Err() == nil; {
			entries, next, err := w.inbox.claim(work, w.name, s, w.config.ClaimIdle, cursor, w.config.BatchSize)
			if err != nil {
				w.fail(work, err, s)
				break
			}
			w.config.Observer.claimed(len(entries))
			w.take(work, w.withoutParked(entries))
			if next == firstPage {
				break
			}
			cursor = next
		}
		if err := w.tidy(work, s); err != nil {
			w.fail(work, err, s)
		}
	}
}

// firstPage is the cursor with which a claim begins, and that it ends with.
const firstPage = "0-0"

// goneAfter is how many times ClaimIdle a consumer was not heard of until it is taken
// off its group. One that lives after all comes back by itself.
const goneAfter = 20

func (w *worker) tidy(ctx context.Context, s *stream) error {
	names, err := w.inbox.idlers(ctx, s, goneAfter*w.config.ClaimIdle)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !w.ofThisProcess(name) {
			if err := w.inbox.leave(ctx, name, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// ofThisProcess says whether a consumer is one of this process's workers.
func (w *worker) ofThisProcess(consumer string) bool {
	n := strings.LastIndexByte(consumer, '-')
	return n >= 0 && consumer[:n] == w.config.Name
}

// take carries out what was delivered. What fails on the way is delivered again.
func (w *worker) take(ctx context.Context, entries []entry) {
	if len(entries) == 0 {
		return
	}
	if err := w.carryOut(ctx, entries); err != nil {
		var streams []*stream
		for _, e := range entries {
			if !slices.Contains(streams, e.stream) {
				streams = append(streams, e.stream)
			}
		}
		w.fail(ctx, err, streams...)
	}
}

func (w *worker) carryOut(ctx context.Context, entries []entry) error {
	if err := w.config.Faults.Pass(ctx, lock.CriticalSection); err != nil {
		return err
	}
	batch, alone, gone := make([]entry, 0, len(entries)), []entry(nil), []entry(nil)
	for _, e := range entries {
		switch {
		case e.gone:
			gone = append(gone, e)
		case e.malformed != nil || e.deliveries > w.config.MaxDeliveries:
			alone = append(alone, e)
		default:
			batch = append(batch, e)
		}
	}
	failed := w.finish(ctx, gone)
	for part := range slices.Chunk(batch, w.config.BatchSize) {
		failed = cmp.Or(failed, w.persist(ctx, part))
	}
	for _, e := range alone {
		failed = cmp.Or(failed, w.alone(ctx, e))
	}
	return failed
}

// retry tries again what was put aside, where it is due.
func (w *worker) retry(ctx context.Context) {
	now := time.Now()
	var due []entry
	w.parked = slices.DeleteFunc(w.parked, func(p parked) bool {
		if p.due.After(now) {
			return false
		}
		due = append(due, p.entry)
		return true
	})
	for _, e := range due {
		if err := w.alone(ctx, e); err != nil {
			w.fail(ctx, err, e.stream)
		}
	}
}

func (w *worker) park(e entry, rest time.Duration) {
	if !w.isParked(e) {
		w.parked = append(w.parked, parked{entry: e, due: time.Now().Add(rest)})
	}
}

func (w *worker) isParked(e entry) bool {
	return slices.ContainsFunc(w.parked, func(p parked) bool { return p.stream == e.stream && p.id == e.id })
}

func (w *worker) withoutParked(entries []entry) []entry {
	return slices.DeleteFunc(entries, w.isParked)
}

// pause is how long to wait after the nth failure: twice as long each time, less a
// random part.
func pause(n int, first, longest time.Duration) time.Duration {
	d := min(first<<min(n-1, 20), longest)
	return d - mathrand.N(d/2+1)
}

// sleep reports whether it slept as long as d: ctx may have ended before.
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

// errCount: the database answered for another number of orders than it was given.
var errCount = errors.New("fulfil: the database did not answer for each order")
