package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// stopSteps records what a stop does, and when.
type stopSteps struct {
	begun time.Time
	mu    sync.Mutex
	did   []string
}

func (s *stopSteps) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.did = append(s.did, fmt.Sprintf("%v %s", time.Since(s.begun), what))
}

func (s *stopSteps) Drain()    { s.note("not ready") }
func (s *stopSteps) EndWaits() { s.note("waits end") }

// stoppedServer is a server whose requests take a time to finish, and are cut off at the end of their context.
type stoppedServer struct {
	*stopSteps
	name string
	busy time.Duration
}

func (s stoppedServer) Drain() { s.note(s.name + " drains") }

func (s stoppedServer) Stop(ctx context.Context) error {
	s.note(s.name + " stops")
	defer func() { s.note(s.name + " has stopped") }()
	if s.busy == 0 {
		return nil
	}
	select {
	case <-time.After(s.busy):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A stop is announced before anything is refused, the background work goes on until the requests have ended, and the
// debug listener serves until then.
func TestStopInSteps(t *testing.T) {
	for name, test := range map[string]struct {
		busy time.Duration
		want []string
		err  error
	}{
		"requests finish": {time.Second, []string{
			"0s not ready", "0s public drains", "0s debug drains", "5s waits end", "5s public stops", "6s public has stopped", "6s work ends", "6s debug stops", "6s debug has stopped",
		}, nil},
		"requests are cut off": {time.Minute, []string{
			"0s not ready", "0s public drains", "0s debug drains", "5s waits end", "5s public stops", "15s work ends", "15s public has stopped", "15s debug stops", "15s debug has stopped",
		}, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stopSteps{begun: time.Now()}
				endWork := sync.OnceFunc(func() { s.note("work ends") })
				public := stoppedServer{s, "public", test.busy}
				err := shutdown(t.Context(), 5*time.Second, 10*time.Second, s, []stopper{public, stoppedServer{s, "debug", 0}}, endWork, slog.New(slog.DiscardHandler))
				synctest.Wait()
				// What happens at one moment on two goroutines has no order.
				got := slices.Clone(s.did)
				slices.Sort(got)
				want := slices.Clone(test.want)
				slices.Sort(want)
				if !slices.Equal(got, want) || s.did[0] != test.want[0] || !errors.Is(err, test.err) {
					t.Errorf("%v; it did\n%s\nwant\n%s", err, strings.Join(s.did, "\n"), strings.Join(test.want, "\n"))
				}
			})
		})
	}
}
