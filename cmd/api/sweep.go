package main

import (
	"context"
	"log/slog"
	"time"

	"seckill/internal/idempotency"
)

// How long answers to idempotency keys are kept, and how they are cleared away.
const (
	keepAnswers = 24 * time.Hour
	sweepEvery  = 10 * time.Minute
	sweepAtOnce = 1000
)

// sweep forgets old idempotency keys until ctx ends.
func sweep(ctx context.Context, store idempotency.Store, log *slog.Logger) error {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			for {
				n, err := store.Sweep(ctx, now.Add(-keepAnswers), sweepAtOnce)
				if err != nil && ctx.Err() == nil {
					log.Warn("idempotency keys were not swept", "error", err)
				}
				if err != nil || n < sweepAtOnce {
					break
				}
			}
		}
	}
}
