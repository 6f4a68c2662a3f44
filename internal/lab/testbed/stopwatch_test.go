package testbed

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/simulate"
)

// An experiment is ended at its limit. The time in which its stopwatch is stopped, as during a build, does not count.
func TestStopwatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithCancelCause(t.Context())
		s := startStopwatch(2*time.Minute, cancel)
		simulate.Sleep(time.Minute)
		start := s.stop()
		s.stop()() // it is stopped already: this starts nothing
		simulate.Sleep(time.Hour)
		if got := s.elapsed(); got != time.Minute || ctx.Err() != nil {
			t.Errorf("after an hour of building: %v, %v", got, ctx.Err())
		}
		start()
		<-ctx.Done()
		if took := time.Since(began); took != time.Hour+2*time.Minute || s.elapsed() != 2*time.Minute {
			t.Errorf("ended after %v, of which %v count", took, s.elapsed())
		}
		if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "took longer than 2m0s") {
			t.Errorf("the cause is %v", err)
		}
		s.stop()
	})
}
