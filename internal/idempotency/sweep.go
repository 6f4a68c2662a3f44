package idempotency

import (
	"context"
	"log/slog"
	"time"
)

// How long the answers to idempotency keys are kept, and how old ones are deleted.
const (
	keepAnswers = 24 * time.Hour
	sweepEvery  = 10 * time.Minute
	sweepBatch  = 1000
)

// SweepUntil deletes old keys until ctx ends.
func SweepUntil(ctx context.Context, store Store, log *slog.Logger) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			for {
				n, err := store.Sweep(ctx, now.Add(-keepAnswers), sweepBatch)
				if err != nil && ctx.Err() == nil {
					log.Warn("idempotency keys were not swept", "error", err)
				}
				if err != nil || n < sweepBatch {
					break
				}
			}
		}
	}
}
