package idworker

import (
	"context"
	"time"
)

// unit is one tick, the time unit of sonyflake.
const unit = 10 * time.Millisecond

// ticks turns wall-clock time into sonyflake's time.
type ticks struct{ start func() time.Time }

// at is the tick that t lies in; negative before the start.
func (c ticks) at(t time.Time) int64 {
	return t.UnixNano()/int64(unit) - c.start().UnixNano()/int64(unit)
}

// until is how long it is from t to the beginning of a tick.
func (c ticks) until(tick int64, t time.Time) time.Duration {
	begin := (tick + c.start().UnixNano()/int64(unit)) * int64(unit)
	return time.Duration(begin - t.UnixNano())
}

// sleep waits, or returns the error of ctx when that ends first.
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
