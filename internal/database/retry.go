package database

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"
)

// The first and the longest pause between two attempts.
const (
	firstBackoff = 2 * time.Millisecond
	maxBackoff   = 100 * time.Millisecond
)

// retry calls attempt until it ends without a collision, a bounded number of times, with a growing pause between
// attempts. The end of ctx ends the pause. retry returns the error of the last attempt.
func (d *DB) retry(ctx context.Context, attempt func() error) error {
	return d.retryWhile(ctx, forever, func() (collided bool, err error) {
		err = attempt()
		return failureOf(err) == collision, err
	})
}

// insertOnce does what retry does, for the insertion of a row. If it was repeated, a duplicate may be its own row: a
// reported collision is no proof that nothing was committed.
func (d *DB) insertOnce(ctx context.Context, insert func() error) (repeated bool, err error) {
	attempts := 0
	err = d.retry(ctx, func() error {
		attempts++
		return translateWrite(ctx, insert())
	})
	return attempts > 1, err
}

// forever is longer than any attempt takes.
const forever = math.MaxInt64 * time.Nanosecond

// retryWhile does what retry does, for an attempt that itself reports whether it collided. If an attempt takes as long
// as longest, it is the last one.
func (d *DB) retryWhile(ctx context.Context, longest time.Duration, attempt func() (collided bool, err error)) error {
	began := time.Now()
	for n := 1; ; n++ {
		attempted := time.Now()
		collided, err := attempt()
		tooLate := n >= d.config.MaxAttempts && time.Since(began) >= clusterFor || time.Since(attempted) >= longest
		if !collided || n == d.maxAttempts() || tooLate {
			return err
		}
		d.config.Logger.LogAttrs(ctx, slog.LevelInfo, "database collision, trying again",
			slog.Int("attempt", n), slog.Any("error", err))
		if err := backoff(ctx, n); err != nil {
			return err
		}
	}
}

// backoff waits before attempt n+1. The wait doubles each time, less a random part, so that transactions that collided
// do not collide again.
func backoff(ctx context.Context, n int) error {
	longest := min(firstBackoff<<min(n-1, 10), maxBackoff)
	timer := time.NewTimer(longest - rand.N(longest/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
