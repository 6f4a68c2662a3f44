package lock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Polling is how waiters of a mechanism without a wake-up wait.
type Polling struct {
	// Every is the mean time between two attempts; 0 stands for [DefaultPollEvery].
	Every time.Duration
	// Jitter returns a number from 0 up to n, without n. nil stands for the runtime's own generator.
	Jitter func(n time.Duration) time.Duration
}

// DefaultPollEvery is a compromise: a shorter interval costs commands, a longer one waiting time.
const DefaultPollEvery = 10 * time.Millisecond

// Acquire calls try until it succeeds, fails with an error other than [ErrNotAcquired], ctx ends, or wait has passed.
// With a wait of 0 it tries once. Random jitter of up to half the interval to either side spreads the attempts of
// waiters that started together.
func (p Polling) Acquire(
	ctx context.Context, wait time.Duration, try func(context.Context) (Lease, error),
) (Lease, error) {
	lease, err := try(ctx)
	if wait <= 0 || !errors.Is(err, ErrNotAcquired) {
		return lease, err
	}
	every := p.Every
	if every <= 0 {
		every = DefaultPollEvery
	}
	jitter := p.Jitter
	if jitter == nil {
		jitter = rand.N[time.Duration]
	}
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		next.Reset(every/2 + jitter(every))
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
