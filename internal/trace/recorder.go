package trace

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

// Recorder writes down events as they come, each with one Write: what was recorded
// survives the death of the process at any moment. It is safe for use by many
// goroutines.
type Recorder struct {
	process  string
	attempts atomic.Int64
	txs      atomic.Int64
	closing  chan struct{} // closed by Close: ends what waits for a loss

	mu     sync.Mutex
	to     io.Writer
	file   *os.File // nil where the writer is the caller's
	closed bool
	failed error // the first failure to write
}

// NewRecorder records to w, under the name of this process.
func NewRecorder(w io.Writer, process string) *Recorder {
	return &Recorder{process: process, to: w, closing: make(chan struct{})}
}

// Open appends to the file at path, which is made where there is none. It is for one
// process at a time: a line that its death cuts off is the last one.
func Open(path, process string) (*Recorder, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	r := NewRecorder(f, process)
	r.file = f
	return r, nil
}

// Close closes the file, and returns the first error that there was in writing. What
// happens from then on is not recorded.
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

// Record writes down an event. Process is filled in, and where they are not given At
// and, from ctx, who acts and for what.
func (r *Recorder) Record(ctx context.Context, e Event) {
	if e.At == 0 {
		e.At = now()
	}
	e.Process = r.process
	a := actorIn(ctx)
	if e.Who == "" {
		e.Who, e.Attempt = a.who, a.attempt
	}
	if e.Voucher == 0 {
		e.Voucher = a.voucher
	}
	if e.User == 0 {
		e.User = a.user
	}
	line, err := json.Marshal(e)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if err == nil {
		_, err = r.to.Write(append(line, '\n'))
	}
	if err != nil && r.failed == nil {
		r.failed = fmt.Errorf("trace: an event was not recorded: %w", err)
	}
}

// now is the moment on the clock that the processes of a machine share.
func now() int64 { return time.Now().UnixNano() }

// actor is who acts, and for what.
type actor struct {
	who                    string
	attempt, voucher, user int64
}

type actorKey struct{}

// WithWho returns a context in which all events are who's, such as "buyer 17".
func WithWho(ctx context.Context, who string) context.Context {
	a := actorIn(ctx)
	a.who = who
	return context.WithValue(ctx, actorKey{}, a)
}

func actorIn(ctx context.Context) actor {
	a, _ := ctx.Value(actorKey{}).(actor)
	return a
}
