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

// ErrNoLease means that no machine id is leased, so no id can be minted. A background goroutine keeps trying to lease
// one. Compare with errors.Is.
var ErrNoLease = errors.New("idworker: no machine id leased")

// NoLeaseError is an [ErrNoLease] with its cause. It is an [order.ErrUnavailable], too.
type NoLeaseError struct {
	// Cause is why there is no lease. It is not unwrapped: a time-out in the background is not the caller's time-out.
	Cause error
}

// Error implements error.
func (e *NoLeaseError) Error() string { return fmt.Sprintf("%v: %v", ErrNoLease, e.Cause) }

// Unwrap makes errors.Is(err, ErrNoLease) and errors.Is(err, order.ErrUnavailable) true.
func (e *NoLeaseError) Unwrap() []error { return []error{ErrNoLease, order.ErrUnavailable} }

// Sonyflake mints ids from the clock and leased machine ids. It is safe for use by several goroutines.
type Sonyflake struct {
	slots []*slot
	next  atomic.Uint64 // round robin over the slots

	stop    context.CancelFunc
	stopped chan struct{} // closed when the goroutines of all slots have ended
}

var _ order.IDs = (*Sonyflake)(nil)

// NewSonyflake leases one machine id, and the others in the background, and keeps them leased until Close. While none
// is free it waits until ctx ends. Its errors are [*NoLeaseError] if Redis does not answer, and [ErrInvalid] if cfg is
// not valid.
//
// client, for example a [redis.UniversalClient], should have a PoolSize above cfg.Machines and short time-outs.
func NewSonyflake(ctx context.Context, client redis.Scripter, cfg Config) (*Sonyflake, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return newSonyflake(ctx, newRedisRegistry(client, cfg), cfg)
}

func newSonyflake(ctx context.Context, r registry, cfg Config) (*Sonyflake, error) {
	s := &Sonyflake{stopped: make(chan struct{})}
	renewals := newRenewals(cfg.Logger)
	for range cfg.Machines {
		s.slots = append(s.slots, &slot{registry: r, cfg: cfg, ticks: ticks{start: cfg.start}, renewals: renewals})
	}
	if err := s.leaseFirst(ctx); err != nil {
		return nil, err
	}
	// The leases outlive the context of the constructor; Close ends them.
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

// leaseFirst waits for the first machine id.
func (s *Sonyflake) leaseFirst(ctx context.Context) error {
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

// NextID mints a positive, unique id. It waits for the next tick of 10 ms if the ids of this one are used up, and for
// up to 100 ms if the clock stepped back, but no longer than ctx lasts. While no machine id is leased it returns a
// [*NoLeaseError] at once.
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

// mint tries each slot once, round robin. It returns an id, or the shortest wait.
func (s *Sonyflake) mint() (id int64, wait time.Duration, err error) {
	next := s.next.Add(1)
	var cause error
	for i := range uint64(len(s.slots)) {
		id, w, err := s.slots[(next+i)%uint64(len(s.slots))].mint()
		switch {
		case err != nil:
			cause = err
		case w == 0:
			return id, 0, nil
		case wait == 0 || w < wait:
			wait = w
		}
	}
	if wait > 0 {
		return 0, wait, nil
	}
	return 0, 0, &NoLeaseError{Cause: cause}
}

// Ready returns nil while ids can be minted, else a [*NoLeaseError]. It makes no call to Redis.
func (s *Sonyflake) Ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var cause error
	for _, slot := range s.slots {
		if cause = slot.ready(); cause == nil {
			return nil
		}
	}
	return &NoLeaseError{Cause: cause}
}

// Close stops the minting and releases the machine ids. The lease of a machine id that was not released before ctx
// ended expires. Close may be repeated.
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
