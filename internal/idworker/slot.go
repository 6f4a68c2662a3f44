package idworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// slot holds one machine id at a time. When it loses one it gets another.
type slot struct {
	registry registry
	cfg      Config
	ticks    ticks

	generator atomic.Pointer[generator] // nil: none leased
	reason    atomic.Pointer[error]     // why, where there is none
}

// run keeps a machine id leased until ctx ends. It leaves the last one leased:
// release gives it back.
func (s *slot) run(ctx context.Context) {
	for s.obtain(ctx) {
		g := s.generator.Load()
		err := s.keep(ctx, g)
		if ctx.Err() != nil {
			return
		}
		s.drop(ctx, g, err)
	}
}

// obtain asks for a machine id until it has one. It returns false when ctx ends.
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

// acquire asks for a machine id once.
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
	s.cfg.Logger.Debug("machine id leased", slog.Int("machine", int(g.machine)))
	return nil
}

// pause is how long to wait before asking again.
func (s *slot) pause(err error) time.Duration {
	if busy, ok := errors.AsType[*busyError](err); ok {
		return max(time.Millisecond, min(busy.wait, s.cfg.Retry))
	}
	return s.cfg.Retry
}

// keep renews until ctx ends, the lease is lost, or the clock no longer suits it,
// and returns which.
func (s *slot) keep(ctx context.Context, g *generator) error {
	due, poked := s.cfg.Renewal, g.poked
	for {
		timer := time.NewTimer(min(due, g.left()))
		select {
		case <-timer.C:
		case <-poked:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// A clock that jumped ahead of the mark is what a renewal is good for.
		if err := g.state(); err != nil && !errors.Is(err, errBeyondMark) {
			return err
		}
		switch err := s.renew(ctx, g); {
		case err == nil:
			due, poked = s.cfg.Renewal, g.poked
		case errors.Is(err, errLost):
			return err
		default:
			// Every id asked for may poke; a Redis in trouble is asked at its own pace.
			due, poked = s.cfg.Retry, nil
			s.cfg.Logger.Warn("machine id not renewed", slog.Int("machine", int(g.grant.machine)), slog.Any("error", err))
		}
	}
}

func (s *slot) renew(ctx context.Context, g *generator) error {
	ctx, cancel := context.WithTimeout(ctx, g.left())
	defer cancel()
	res := reserve(s.ticks, s.cfg.TTL)
	if err := s.registry.renew(ctx, g.grant, res); err != nil {
		return err
	}
	g.extend(res)
	return nil
}

// drop parts with a machine id that cannot be used any more.
func (s *slot) drop(ctx context.Context, g *generator, why error) {
	last := g.end()
	s.reason.Store(&why)
	s.generator.Store(nil)
	s.cfg.Logger.Warn("minting stopped", slog.Int("machine", int(g.grant.machine)), slog.Any("error", why))
	if !errors.Is(why, errSteppedBack) {
		return // lost already, or Redis does not answer; what is left expires
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Retry)
	defer cancel()
	if err := s.registry.release(ctx, g.grant, last); err != nil {
		s.cfg.Logger.Warn("machine id not given back", slog.Any("error", err))
	}
}

// mint returns an id, or how long to wait for the next tick, or why there is none.
func (s *slot) mint() (id int64, wait time.Duration, err error) {
	g := s.generator.Load()
	if g == nil {
		return 0, 0, s.why()
	}
	return g.mint()
}

// ready is nil while the slot can mint.
func (s *slot) ready() error {
	g := s.generator.Load()
	if g == nil {
		return s.why()
	}
	return g.state()
}

func (s *slot) why() error {
	if err := s.reason.Load(); err != nil {
		return *err
	}
	return errors.New("idworker: none leased yet")
}

// release gives the machine id back once run has returned. It may be repeated.
func (s *slot) release(ctx context.Context) error {
	g := s.generator.Load()
	if g == nil {
		return nil
	}
	if err := s.registry.release(ctx, g.grant, g.end()); err != nil {
		return err
	}
	s.generator.Store(nil)
	return nil
}
