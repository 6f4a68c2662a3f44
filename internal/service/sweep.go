package service

import (
	"context"
	"log/slog"
	"time"
)

// How often old rows are deleted, and how many by one statement.
const (
	sweepEvery = 10 * time.Minute
	sweepBatch = 1000
)

// sweepUntil deletes old rows until ctx ends. A call of sweep deletes at most limit of them, and returns how many it
// deleted. failed is what is logged if it returns an error; it is called again after the next interval.
func sweepUntil(ctx context.Context, log *slog.Logger, failed string, sweep func(ctx context.Context, limit int) (int64, error)) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for n := int64(sweepBatch); n == sweepBatch; {
			var err error
			if n, err = sweep(ctx, sweepBatch); err != nil {
				if ctx.Err() == nil {
					log.Warn(failed, "error", err)
				}
				break
			}
		}
	}
}
