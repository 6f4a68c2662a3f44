package idworker

import (
	"context"
	"time"
)

// unit is the length of a tick, sonyflake's unit of time.
const unit = 10 * time.Millisecond

// ticks converts wall-clock time into sonyflake's ticks.
type ticks struct{ start func() time.Time }

// at returns the tick at t; it is negative before the start.
func (c ticks) at(t time.Time) int64 {
	return t.UnixNano()/int64(unit) - c.start().UnixNano()/int64(unit)
}

// until returns the time from t to the beginning of a tick.
func (c ticks) until(tick int64, t time.Time) time.Duration {
	begin := (tick + c.start().UnixNano()/int64(unit)) * int64(unit)
	return time.Duration(begin - t.UnixNano())
}

// sleep waits for d. It returns the error of ctx if that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
