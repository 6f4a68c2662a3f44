package database

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Pauses between attempts: the first, and the longest.
const (
	firstPause = 2 * time.Millisecond
	maxPause   = 100 * time.Millisecond
)

// repeat calls attempt until it ends with anything but a collision, at most
// MaxAttempts times, with a growing pause in between that ends with ctx. The
// error is that of the last attempt.
func (d *DB) repeat(ctx context.Context, attempt func() error) error {
	return d.repeatWhile(ctx, func() (collided bool, err error) {
		err = attempt()
		return failureOf(err) == collision, err
	})
}

// repeatWhile is repeat for an attempt that knows better than its error whether
// it collided.
func (d *DB) repeatWhile(ctx context.Context, attempt func() (collided bool, err error)) error {
	for n := 1; ; n++ {
		collided, err := attempt()
		if !collided || n == d.config.MaxAttempts {
			return err
		}
		d.config.Logger.LogAttrs(ctx, slog.LevelInfo, "database collision, trying again",
			slog.Int("attempt", n), slog.Any("error", err))
		if err := pause(ctx, n); err != nil {
			return err
		}
	}
}

// pause waits before attempt n+1: twice as long each time, less a random part,
// so that those who collided do not meet again.
func pause(ctx context.Context, n int) error {
	longest := min(firstPause<<min(n-1, 10), maxPause)
	timer := time.NewTimer(longest - rand.N(longest/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
