package idworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// slot keeps one machine id leased. When it loses one it leases another.
type slot struct {
	registry registry
	cfg      Config
	ticks    ticks
	renewals *renewals // of all slots

	generator atomic.Pointer[generator] // nil while no machine id is leased
	reason    atomic.Pointer[error]     // why none is leased
}

// run keeps a machine id leased until ctx ends. Then release releases the last one.
func (s *slot) run(ctx context.Context) {
	for s.obtain(ctx) {
		g := s.generator.Load()
		err := s.keepLeased(ctx, g)
		if ctx.Err() != nil {
			return
		}
		s.drop(ctx, g, err)
	}
}

// obtain retries acquire until it succeeds. It returns false when ctx ends.
func (s *slot) obtain(ctx context.Context) bool {
	for s.generator.Load() == nil {
		err := s.acquire(ctx)
		if err == nil {
			break
		}
		s.reason.Store(&err)
		if sleep(ctx, s.pause(err)) != nil {
			return false
		}
	}
	return ctx.Err() == nil
}

// acquire tries once to lease a machine id.
func (s *slot) acquire(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, usable(s.cfg.TTL))
	defer cancel()
	res := reserve(s.ticks, s.cfg.TTL)
	if res.tick < 0 {
		return fmt.Errorf("idworker: the clock shows a time before %v", s.cfg.start())
	}
	g, err := s.registry.acquire(ctx, res)
	if err != nil {
		return err
	}
	s.generator.Store(newGenerator(g, s.ticks, res))
	s.renewals.succeeded(s)
	s.cfg.Logger.Debug("machine id leased", slog.Int("machine", int(g.machine)))
	return nil
}

// pause is the time until the next acquire after err.
func (s *slot) pause(err error) time.Duration {
	if busy, ok := errors.AsType[*busyError](err); ok {
		return max(time.Millisecond, min(busy.wait, s.cfg.Retry))
	}
	return s.cfg.Retry
}

// keepLeased renews the lease until it is lost, the clock no longer fits the machine id, or ctx ends, and returns the
// reason.
func (s *slot) keepLeased(ctx context.Context, g *generator) error {
	due, renewNow := s.cfg.Renewal, g.renewNow
	for {
		timer := time.NewTimer(min(due, g.remaining()))
		select {
		case <-timer.C:
		case <-renewNow:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// If the clock has jumped ahead of the mark, a renewal moves the mark.
		if err := g.ready(); err != nil && !errors.Is(err, errBeyondMark) {
			return err
		}
		switch err := s.renew(ctx, g); {
		case err == nil:
			due, renewNow = s.cfg.Renewal, g.renewNow
		case errors.Is(err, errLost):
			return err
		default:
			// Every NextID may request a renewal. While Redis fails, only Retry sets the pace.
			due, renewNow = s.cfg.Retry, nil
			s.renewals.failed(s, g.grant.machine, err)
		}
	}
}

func (s *slot) renew(ctx context.Context, g *generator) error {
	ctx, cancel := context.WithTimeout(ctx, g.remaining())
	defer cancel()
	res := reserve(s.ticks, s.cfg.TTL)
	if err := s.registry.renew(ctx, g.grant, res); err != nil {
		return err
	}
	g.extend(res)
	s.renewals.succeeded(s)
	return nil
}

// drop gives up a machine id that can no longer be used.
func (s *slot) drop(ctx context.Context, g *generator, why error) {
	last := g.stop()
	s.reason.Store(&why)
	s.generator.Store(nil)
	s.cfg.Logger.Warn("minting stopped", slog.Int("machine", int(g.grant.machine)), slog.Any("error", why))
	if !errors.Is(why, errSteppedBack) {
		return // the lease is lost already, or Redis does not answer and it expires
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Retry)
	defer cancel()
	if err := s.registry.release(ctx, g.grant, last); err != nil {
		s.cfg.Logger.Warn("machine id not released", slog.Any("error", err))
	}
}

// mint returns an id, or the time until the next tick, or an error.
func (s *slot) mint() (id int64, wait time.Duration, err error) {
	g := s.generator.Load()
	if g == nil {
		return 0, 0, s.cause()
	}
	return g.mint()
}

// ready is nil while the slot can mint.
func (s *slot) ready() error {
	g := s.generator.Load()
	if g == nil {
		return s.cause()
	}
	return g.ready()
}

func (s *slot) cause() error {
	if err := s.reason.Load(); err != nil {
		return *err
	}
	return errors.New("idworker: none leased yet")
}

// release releases the machine id. It must not be called before run has returned, and may be repeated.
func (s *slot) release(ctx context.Context) error {
	g := s.generator.Load()
	if g == nil {
		return nil
	}
	if err := s.registry.release(ctx, g.grant, g.stop()); err != nil {
		return err
	}
	s.generator.Store(nil)
	return nil
}
