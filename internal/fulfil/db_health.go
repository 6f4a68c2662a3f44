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

// outageAfter is how long all writes must fail before that counts as an outage. Finding a single bad entry in a batch
// usually takes less time.
const outageAfter = time.Second

// dbHealth tracks whether the database takes orders from this process, and reports when that changes. It is safe for
// use by several goroutines.
type dbHealth struct {
	config *Config

	mu sync.Mutex
	// lastSuccess is when the latest successful write began.
	lastSuccess time.Time
	// failingSince is when writes began to fail, with no success since; zero after a success. err is the latest error.
	// reported: the outage was logged.
	failingSince time.Time
	err          error
	reported     bool
	// running are the beginnings of the writes and rejections that have not ended. lastAnswer is when the latest
	// successful one ended.
	running    []time.Time
	lastAnswer time.Time
}

// begin records that a write or a rejection begins. It ends with wrote or rejected.
func (h *dbHealth) begin() (began time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	began = time.Now()
	h.running = append(h.running, began)
	return began
}

// end records that a write or a rejection is over. The mutex is held.
func (h *dbHealth) end(began time.Time) {
	i := slices.Index(h.running, began)
	h.running = slices.Delete(h.running, i, i+1)
}

// wrote records the result of an attempt to write orders.
func (h *dbHealth) wrote(ctx context.Context, began time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end(began)
	if err == nil {
		if began.After(h.lastSuccess) {
			h.lastSuccess = began
		}
		h.answered(ctx)
		return
	}
	if _, final := rejectionReason(err); final || ctx.Err() != nil {
		return // the order is rejected next, which shows whether the database writes; or the caller gave up
	}
	if h.failingSince.IsZero() {
		h.failingSince = began
		if h.lastSuccess.After(began) { // a write of another worker has succeeded since
			h.failingSince = h.lastSuccess
		}
	}
	if h.err = err; time.Since(h.failingSince) < outageAfter {
		return
	}
	if !h.reported {
		h.reported = true
		h.config.warn(ctx, "the database takes no orders, retrying", err)
	}
	h.config.Observer.Outage(h.failingSince, err)
}

// rejected records the result of an attempt to reject an order. A success ends an outage, and does not count as the
// write of an order.
func (h *dbHealth) rejected(ctx context.Context, began time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end(began)
	if err == nil {
		h.answered(ctx)
	}
}

// answered ends an outage, if there is one. The mutex is held.
func (h *dbHealth) answered(ctx context.Context) {
	outage, reported := time.Since(h.failingSince), h.reported
	h.failingSince, h.err, h.reported = time.Time{}, nil, false
	h.lastAnswer = time.Now()
	if reported {
		h.config.Log.LogAttrs(ctx, slog.LevelInfo, "fulfil: the database takes orders again", slog.Duration("after", outage))
		h.config.Observer.Outage(time.Time{}, nil)
	}
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

// check returns since when the database has taken no orders, and why; nil if it takes them. A write that hangs says so
// before it fails.
func (h *dbHealth) check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	since, err := h.failingSince, h.err
	if !h.reported {
		if len(h.running) == 0 {
			return nil
		}
		if since, err = slices.MinFunc(h.running, time.Time.Compare), errStillRunning; h.lastAnswer.After(since) {
			since = h.lastAnswer
		}
		if time.Since(since) < outageAfter {
			return nil
		}
	}
	return fmt.Errorf("%w for %v: %w", errOutage, time.Since(since).Round(time.Second), err)
}
