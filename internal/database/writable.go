package database

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"seckill/internal/order"
)

// Writable returns nil if the database commits a small write. A server that answers reads may take no writes: it is
// read-only, its disk is full, or somebody holds FLUSH TABLES WITH READ LOCK. The error is [order.ErrUnavailable], or
// the context's.
//
// Callers share the write that is under way. The write does not end with a caller's context: otherwise a server that
// keeps it waiting would get one more write for each caller, even after the callers have gone.
func (d *DB) Writable(ctx context.Context) error {
	if !d.batches {
		return d.Ping(ctx) // SQLite is a file of this process
	}
	w := d.writing.join(ctx, d.writeOnce)
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return fmt.Errorf("%w: it answers no write: %w", order.ErrUnavailable, ctx.Err())
	}
}

// writeOnce commits a small write on a connection for single statements: while a voucher's row is locked, its buyers
// occupy all writers.
func (d *DB) writeOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.config.ReadTimeout)
	defer cancel()
	return d.onAnyShard(func(voucherID int) error {
		return d.retry(ctx, func() error {
			_, err := d.singles.ExecContext(ctx, smallWrite, voucherID, rand.IntN(flushRows))
			return translateWrite(ctx, err)
		})
	})
}

// sharedWrite is a write that several callers wait for.
type sharedWrite struct {
	mu      sync.Mutex
	current *pendingWrite // nil: none is under way
	running sync.WaitGroup
}

type pendingWrite struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when err is set
	err    error
}

// join returns the write that is under way, or begins a write that outlives ctx.
func (s *sharedWrite) join(ctx context.Context, write func(context.Context) error) *pendingWrite {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		return s.current
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &pendingWrite{cancel: cancel, done: make(chan struct{})}
	s.current = w
	s.running.Go(func() {
		defer cancel()
		w.err = write(ctx)
		s.mu.Lock()
		s.current = nil
		s.mu.Unlock()
		close(w.done)
	})
	return w
}

// end cancels the write that is under way, and waits for it.
func (s *sharedWrite) end() {
	s.mu.Lock()
	if s.current != nil {
		s.current.cancel()
	}
	s.mu.Unlock()
	s.running.Wait()
}
