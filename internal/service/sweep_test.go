package service

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// Old rows are deleted in batches until none is left, every ten minutes. An error is logged, and ends only that sweep.
func TestSweepUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var logged bytes.Buffer
		var mu sync.Mutex // guards the next three
		left, calls, broken := int64(0), 0, false
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			sweepUntil(ctx, slog.New(slog.NewTextHandler(&logged, nil)), "rows were not swept", func(_ context.Context, limit int) (int64, error) {
				mu.Lock()
				defer mu.Unlock()
				calls++
				if broken {
					return 0, errors.New("no database")
				}
				n := min(left, int64(limit))
				left -= n
				return n, nil
			})
		}()
		next := func(rows int64, fails bool, wantCalls int) {
			t.Helper()
			mu.Lock()
			left, calls, broken = rows, 0, fails
			mu.Unlock()
			simulate.Sleep(sweepEvery)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if calls != wantCalls || !broken && left != 0 {
				t.Errorf("of %d rows %d are left after %d calls, want %d", rows, left, calls, wantCalls)
			}
		}
		next(0, false, 1)
		next(sweepBatch-1, false, 1)
		next(2*sweepBatch+3, false, 3)
		next(5000, true, 1)
		fail.Unequal(t, strings.Count(logged.String(), "rows were not swept"), 1, "times in the log: %s", &logged)
		next(5000, false, 6) // the last one finds none
		cancel()
		<-ended
	})
}
