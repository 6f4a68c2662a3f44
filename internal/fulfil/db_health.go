package fulfil

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// outageAfter is how long all writes must fail before that counts as an outage. Finding a
// single bad entry in a batch usually takes less time.
const outageAfter = time.Second

// dbHealth tracks whether the database takes orders from this process.
type dbHealth struct {
	mu sync.Mutex
	// lastSuccess is when the latest successful write began.
	lastSuccess time.Time
	// failingSince is when writes began to fail, with no success since; zero after a
	// success. err is the latest error. reported: the outage was logged.
	failingSince time.Time
	err          error
	reported     bool
	// running are the beginnings of the writes and rejections that have not ended. lastAnswer is when the latest successful
	// one ended.
	running    []time.Time
	lastAnswer time.Time
}

// begin records that a write or a rejection begins, and finish that it has ended, with whatever result.
func (h *dbHealth) begin(began time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = append(h.running, began)
}

func (h *dbHealth) finish(began time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.running, began)
	h.running = slices.Delete(h.running, i, i+1)
}

// succeeded records a successful write. If it ends a reported outage, it returns how long
// that lasted, else 0.
func (h *dbHealth) succeeded(began time.Time) (outage time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if began.After(h.lastSuccess) {
		h.lastSuccess = began
	}
	return h.end()
}

// rejected records that the database wrote a rejection. That ends an outage, and does not count as the write of an order.
func (h *dbHealth) rejected() (outage time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.end()
}

// end ends an outage, if there is one. The mutex is held.
func (h *dbHealth) end() (outage time.Duration) {
	if h.reported {
		outage = time.Since(h.failingSince)
	}
	h.failingSince, h.err, h.reported = time.Time{}, nil, false
	h.lastAnswer = time.Now()
	return outage
}

// failed records a failed write. During an outage it returns the outage's beginning, else
// the zero time. first is true once per outage.
func (h *dbHealth) failed(began time.Time, err error) (since time.Time, first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failingSince.IsZero() {
		h.failingSince = began
		if h.lastSuccess.After(began) { // a write of another worker has succeeded since
			h.failingSince = h.lastSuccess
		}
	}
	if h.err = err; time.Since(h.failingSince) < outageAfter {
		return time.Time{}, false
	}
	first, h.reported = !h.reported, true
	return h.failingSince, first
}

// inOutage reports whether an outage was reported that has not ended.
func (h *dbHealth) inOutage() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reported
}

// healthy reports whether the latest write succeeded, less than outageAfter ago.
func (h *dbHealth) healthy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failingSince.IsZero() && !h.lastSuccess.IsZero() && time.Since(h.lastSuccess) < outageAfter
}

var (
	// errOutage: the database takes no orders.
	errOutage = errors.New("fulfil: the database takes no orders")
	// errStillRunning: a write has not ended yet.
	errStillRunning = errors.New("fulfil: a write is still running")
)

// Check returns an error while accepted orders wait because the database does not answer
// or refuses every order. It does not query the database: a failure while no order is
// being written is noticed with the next order.
func (f *Fulfiller) Check(context.Context) error {
	since, err := f.health.outage()
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w for %v: %w", errOutage, time.Since(since).Round(time.Second), err)
}

// outage returns since when the database has taken no orders, and why; nil if it takes them. A write that hangs says so
// before it fails.
func (h *dbHealth) outage() (since time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.reported:
		return h.failingSince, h.err
	case len(h.running) == 0:
		return time.Time{}, nil
	}
	if since = slices.MinFunc(h.running, time.Time.Compare); h.lastAnswer.After(since) {
		since = h.lastAnswer
	}
	if time.Since(since) < outageAfter {
		return time.Time{}, nil
	}
	return since, errStillRunning
}

// recordWrite records a write that began at a time and ended with err, and reports the
// beginning and the end of an outage.
func (f *Fulfiller) recordWrite(ctx context.Context, began time.Time, err error) {
	if err == nil {
		f.outageEnded(ctx, f.health.succeeded(began))
		return
	}
	if _, final := rejectionReason(err); final || ctx.Err() != nil {
		return // the order is rejected next, which shows whether the database writes; or the caller gave up
	}
	since, first := f.health.failed(began, err)
	if first {
		f.warn(ctx, "the database takes no orders, retrying", err)
	}
	if !since.IsZero() {
		f.config.Observer.outage(since, err)
	}
}

// outageEnded reports the end of an outage, unless its length is 0.
func (f *Fulfiller) outageEnded(ctx context.Context, outage time.Duration) {
	if outage == 0 {
		return
	}
	f.config.Log.LogAttrs(ctx, slog.LevelInfo, "fulfil: the database takes orders again", slog.Duration("after", outage))
	f.config.Observer.outage(time.Time{}, nil)
}
