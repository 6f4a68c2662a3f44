package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Recorder passes each event on as soon as it is recorded: written with one Write, so that no event is lost when the
// process dies, or to a function. It is safe for use by several goroutines.
type Recorder struct {
	process  string
	attempts atomic.Int64
	txs      atomic.Int64
	closing  chan struct{} // closed by Close; ends the goroutines that wait for a loss

	mu     sync.Mutex
	to     func(Event) error
	file   *os.File // nil if the caller owns the writer
	closed bool
	failed error // the first failed write
}

// NewRecorder returns a recorder that writes to w, under the name of this process.
func NewRecorder(w io.Writer, process string) *Recorder {
	return NewFuncRecorder(process, func(e Event) error {
		line, err := json.Marshal(e)
		if err == nil {
			_, err = w.Write(append(line, '\n'))
		}
		return err
	})
}

// NewFuncRecorder returns a recorder that calls record with each event, one at a time.
func NewFuncRecorder(process string, record func(Event) error) *Recorder {
	return &Recorder{process: process, to: record, closing: make(chan struct{})}
}

// Open returns a recorder that appends to the file at path and creates it if necessary. Only one process at a time may
// use a file: then an incomplete line can only be the last.
func Open(path, process string) (*Recorder, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("eventlog: %w", err)
	}
	r := NewRecorder(f, process)
	r.file = f
	return r, nil
}

// Close closes the file and returns the first error of a write. Later events are discarded.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	close(r.closing)
	if r.file == nil {
		return r.failed
	}
	return errors.Join(r.failed, r.file.Close())
}

// Record writes an event. It sets Process and, where they are zero, At to the current time and Who, Attempt, Voucher
// and User to those of ctx.
func (r *Recorder) Record(ctx context.Context, e Event) {
	if e.At == 0 {
		e.At = now()
	}
	e.Process = r.process
	a := actorFrom(ctx)
	if e.Who == "" {
		e.Who, e.Attempt = a.who, a.attempt
	}
	if e.Voucher == 0 {
		e.Voucher = a.voucher
	}
	if e.User == 0 {
		e.User = a.user
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if err := r.to(e); err != nil && r.failed == nil {
		r.failed = fmt.Errorf("eventlog: an event was not recorded: %w", err)
	}
}

// now is the current time in ns since 1970.
func now() int64 { return time.Now().UnixNano() }

// actor is the buyer of an order and what is ordered.
type actor struct {
	who                    string
	attempt, voucher, user int64
}

type actorKey struct{}

// WithWho returns a context whose events have the given actor, such as "buyer 17".
func WithWho(ctx context.Context, who string) context.Context {
	a := actorFrom(ctx)
	a.who = who
	return context.WithValue(ctx, actorKey{}, a)
}

func actorFrom(ctx context.Context) actor {
	a, _ := ctx.Value(actorKey{}).(actor)
	return a
}
