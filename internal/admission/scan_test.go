package admission

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// slowStore answers after a delay, or with the context's error, and counts the calls.
type slowStore struct {
	Store
	asked atomic.Int64
	delay time.Duration
	err   error
}

func (s *slowStore) AdmissionVouchers(ctx context.Context, _ time.Time) ([]contract.AdmissionVoucher, error) {
	s.asked.Add(1)
	select {
	case <-time.After(s.delay):
		return nil, s.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func newScanning(t *testing.T, s Store) *Gate {
	g := newGate(Config{Store: s, Workers: workers{complete: true}}.WithDefaults(), nil)
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func (g *Gate) joinAndWait(ctx context.Context) error {
	for _, err := range g.lookups.scans.join(1).answers(ctx) {
		return err
	}
	return nil
}

// While the database hangs, a caller is answered within one timeout: it does not wait for several scans. A caller with
// a shorter deadline waits no longer than that.
func TestScansWhileTheDatabaseHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newScanning(t, &slowStore{delay: time.Hour})
		var callers sync.WaitGroup
		for i := range 40 {
			simulate.Sleep(50 * time.Millisecond) // some arrive while a scan is under way
			callers.Go(func() {
				begun := time.Now()
				err := g.joinAndWait(t.Context())
				if took := time.Since(begun); !errors.Is(err, order.ErrUnavailable) || took > listTimeout {
					t.Errorf("caller %d: %v after %v", i, err, took)
				}
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		fail.Unless(t, g.joinAndWait(ctx), context.DeadlineExceeded, "a caller with a shorter deadline")
		callers.Wait()
		_ = g.Close()
	})
}

// All callers share a scan that begins after they arrived. No caller gets a scan that was under way.
func TestOneScanServesManyCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{delay: time.Second}
		g := newScanning(t, store)
		var callers sync.WaitGroup
		for wave := range 2 {
			for range 20 {
				callers.Go(func() {
					before := store.asked.Load()
					fail.If(t, g.joinAndWait(t.Context()))
					if store.asked.Load() == before && wave > 0 {
						t.Error("a caller was given a look that had begun before it came")
					}
				})
			}
			synctest.Wait()
			simulate.Sleep(500 * time.Millisecond)
		}
		callers.Wait()
		fail.Unequal(t, store.asked.Load(), 2, "times that the database was asked by 40 callers")
		_ = g.Close()
	})
}

// However often a scan is asked for, scans take about a tenth of the time, and the pause between two scans is bounded.
func TestPauseBetweenScans(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		takes time.Duration
		want  int64 // scans in 11 s
	}{
		"short scans": {10 * time.Millisecond, 100},
		"long scans":  {850 * time.Millisecond, 10}, // and 250 ms of pause
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &slowStore{delay: tc.takes}
				g := newScanning(t, store)
				var callers sync.WaitGroup
				for begun := time.Now(); time.Since(begun) < 11*time.Second; simulate.Sleep(time.Millisecond) {
					callers.Go(func() {
						begun := time.Now()
						err := g.joinAndWait(t.Context())
						if took := time.Since(begun); err != nil || took > 2*tc.takes+maxScanPause {
							t.Errorf("%v after %v", err, took)
						}
					})
				}
				if n := store.asked.Load(); n < tc.want-1 || n > tc.want+1 {
					t.Errorf("%d scans in 11 s, want %d", n, tc.want)
				}
				callers.Wait()
				_ = g.Close()
			})
		})
	}
}

// The error of a scan is returned only to its callers. When the gate closes, all callers get an error.
func TestFailedScan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{delay: time.Millisecond, err: io.EOF}
		g := newScanning(t, store)
		fail.Unless(t, g.joinAndWait(t.Context()), io.EOF)
		store.err = nil
		fail.Unless(t, g.joinAndWait(t.Context()), nil, "after a look that failed")
		waiting := make(chan error, 2)
		store.delay = time.Hour
		for range 2 { // one is in a look, and one waits for the next
			go func() { waiting <- g.joinAndWait(t.Context()) }()
			simulate.Sleep(maxScanPause)
		}
		_ = g.Close()
		for range 2 {
			fail.Unless(t, <-waiting, order.ErrUnavailable, "when the gate was closed")
		}
		fail.Unless(t, g.joinAndWait(t.Context()), order.ErrUnavailable, "after the gate was closed")
	})
}
