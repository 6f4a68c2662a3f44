package lock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Polling is how a mechanism without a wake-up waits.
type Polling struct {
	// Every is the mean time between two tries; 0 is [DefaultPollEvery].
	Every time.Duration
}

// DefaultPollEvery is a compromise: shorter costs commands, longer costs waiting.
const DefaultPollEvery = 10 * time.Millisecond

// Acquire calls try until it succeeds, fails with something other than
// [ErrNotAcquired], ctx ends, or wait has passed; with a wait of 0 once. Tries are
// spread by up to half the interval to either side, so that waiters that came
// together do not keep coming together.
func (p Polling) Acquire(ctx context.Context, wait time.Duration, try func(context.Context) (Lease, error)) (Lease, error) {
	lease, err := try(ctx)
	if wait <= 0 || !errors.Is(err, ErrNotAcquired) {
		return lease, err
	}
	every := p.Every
	if every <= 0 {
		every = DefaultPollEvery
	}
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		next.Reset(every/2 + rand.N(every))
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-deadline.C:
			return nil, err
		case <-next.C:
		}
		if lease, err = try(ctx); !errors.Is(err, ErrNotAcquired) {
			return lease, err
		}
	}
}
