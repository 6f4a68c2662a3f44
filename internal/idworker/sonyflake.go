package idworker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/order"
)

// ErrNoLease says that no machine id is leased, so no id can be minted. A new lease
// is sought in the background. Compare with errors.Is.
var ErrNoLease = errors.New("idworker: no machine id leased")

// NoLeaseError is an [ErrNoLease] that says why. To the order flow it is an
// [order.ErrUnavailable].
type NoLeaseError struct {
	// Cause is what became of the lease. It is not unwrapped: a time-out in the
	// background is not one of the caller's.
	Cause error
}

// Error says why.
func (e *NoLeaseError) Error() string { return fmt.Sprintf("%v: %v", ErrNoLease, e.Cause) }

// Unwrap makes errors.Is(err, ErrNoLease) and errors.Is(err, order.ErrUnavailable)
// true.
func (e *NoLeaseError) Unwrap() []error { return []error{ErrNoLease, order.ErrUnavailable} }

// Sonyflake mints ids from the clock and leased machine ids. It is safe for use by
// several goroutines.
type Sonyflake struct {
	slots []*slot
	turn  atomic.Uint64 // round robin

	stop    context.CancelFunc
	stopped chan struct{} // closed when every slot's goroutine is gone
}

var _ order.IDs = (*Sonyflake)(nil)

// NewSonyflake leases a first machine id, and the others in the background, and
// keeps them leased until Close. While none is free it waits until ctx ends; a
// Redis that does not answer is a [*NoLeaseError]. Config that is not acceptable is
// an [ErrInvalid].
//
// client should have a PoolSize above Machines and short time-outs; a
// [redis.UniversalClient] is one.
func NewSonyflake(ctx context.Context, client redis.Scripter, cfg Config) (*Sonyflake, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return newSonyflake(ctx, newRedisRegistry(client, cfg), cfg)
}

func newSonyflake(ctx context.Context, r registry, cfg Config) (*Sonyflake, error) {
	s := &Sonyflake{stopped: make(chan struct{})}
	for range cfg.Machines {
		s.slots = append(s.slots, &slot{registry: r, cfg: cfg, ticks: ticks{start: cfg.start}})
	}
	if err := s.first(ctx); err != nil {
		return nil, err
	}
	// The leases outlive the context of the construction; Close ends them.
	var running context.Context
	running, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	for _, slot := range s.slots {
		group.Go(func() { slot.run(running) })
	}
	go func() {
		group.Wait()
		close(s.stopped)
	}()
	return s, nil
}

// first waits for the first machine id.
func (s *Sonyflake) first(ctx context.Context) error {
	slot := s.slots[0]
	for {
		err := slot.acquire(ctx)
		if err == nil {
			return nil
		}
		if _, busy := errors.AsType[*busyError](err); !busy {
			return &NoLeaseError{Cause: err}
		}
		if sleep(ctx, slot.pause(err)) != nil {
			return fmt.Errorf("%w: %w", ctx.Err(), &NoLeaseError{Cause: err})
		}
	}
}

// NextID mints an id: positive, never the same twice. It waits, no longer than ctx
// lasts, for the next tick of 10 ms where this one's ids are used up, and for up to
// 100 ms where the clock stepped back. It gives a [*NoLeaseError] as soon as no
// machine id is leased.
func (s *Sonyflake) NextID(ctx context.Context) (int64, error) {
	for {
		id, wait, err := s.mint()
		if err != nil {
			return 0, err
		}
		if wait == 0 {
			return id, nil
		}
		if err := sleep(ctx, wait); err != nil {
			return 0, err
		}
	}
}

// mint asks each machine id once, in turn. It returns an id, or the shortest wait.
func (s *Sonyflake) mint() (id int64, wait time.Duration, err error) {
	turn := s.turn.Add(1)
	var refused error
	for i := range uint64(len(s.slots)) {
		id, w, err := s.slots[(turn+i)%uint64(len(s.slots))].mint()
		switch {
		case err != nil:
			refused = err
		case w == 0:
			return id, 0, nil
		case wait == 0 || w < wait:
			wait = w
		}
	}
	if wait > 0 {
		return 0, wait, nil
	}
	return 0, 0, &NoLeaseError{Cause: refused}
}

// Ready is nil while ids can be minted, else a [*NoLeaseError]. It asks nobody.
func (s *Sonyflake) Ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var refused error
	for _, slot := range s.slots {
		if refused = slot.ready(); refused == nil {
			return nil
		}
	}
	return &NoLeaseError{Cause: refused}
}

// Close stops the minting and gives the machine ids back. A machine id that could
// not be given back before ctx ended expires. Close may be repeated.
func (s *Sonyflake) Close(ctx context.Context) error {
	s.stop()
	select {
	case <-s.stopped:
	case <-ctx.Done():
		return fmt.Errorf("idworker: close: %w", ctx.Err())
	}
	var failed []error
	for _, slot := range s.slots {
		failed = append(failed, slot.release(ctx))
	}
	return errors.Join(failed...)
}
