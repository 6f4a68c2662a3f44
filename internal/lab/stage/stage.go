package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
	"seckill/internal/testkit"
)

// Stage is one experiment's. It is a [testkit.TB], so that testkit.NewRedis and the
// like start servers of the experiment's own on it.
type Stage struct {
	house  *House
	name   string
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	cleanups []func()
	errs     []error // of Errorf
	folder   string
	needs    map[Server]bool
	engine   finding.Engine
	faults   []judge.Fault
}

var _ testkit.TB = (*Stage)(nil)

func newStage(ctx context.Context, h *House, name string) *Stage {
	s := &Stage{house: h, name: name, needs: map[Server]bool{}}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// end runs the cleanups, the last one first, and returns what they and the scene had to
// complain about.
func (s *Stage) end() error {
	s.cancel()
	for {
		s.mu.Lock()
		n := len(s.cleanups)
		if n == 0 {
			err := errors.Join(s.errs...)
			s.errs = nil
			s.mu.Unlock()
			return err
		}
		last := s.cleanups[n-1]
		s.cleanups = s.cleanups[:n-1]
		s.mu.Unlock()
		if err := attempt(last); err != nil {
			s.Errorf("clean up: %w", err)
		}
	}
}

// ending is what Fatalf and Skipf panic with.
type ending struct {
	skipped bool
	err     error
}

// Error implements error.
func (e *ending) Error() string { return e.err.Error() }

// Unwrap is the error.
func (e *ending) Unwrap() error { return e.err }

// attempt calls f and returns how it ended, if not by itself.
func attempt(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *ending:
			err = r
		default:
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	f()
	return nil
}

// must ends the experiment as an attempt ended.
func (s *Stage) must(err error) {
	if err == nil {
		return
	}
	if end, ok := errors.AsType[*ending](err); ok {
		panic(end)
	}
	s.Fatalf("%w", err)
}

// Helper implements [testkit.TB].
func (s *Stage) Helper() {}

// Name implements [testkit.TB].
func (s *Stage) Name() string { return s.name }

// Context ends with the experiment, just before its cleanups.
func (s *Stage) Context() context.Context { return s.ctx }

// Failed implements [testkit.TB].
func (s *Stage) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.errs) > 0
}

// Cleanup has f called at the end of the experiment, before what was registered
// earlier.
func (s *Stage) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

// TempDir returns a new folder that goes with the experiment.
func (s *Stage) TempDir() string {
	s.mu.Lock()
	parent := s.folder
	s.mu.Unlock()
	if parent == "" {
		path, remove, err := testkit.Folder()
		s.must(err)
		s.Cleanup(func() { s.must(remove()) })
		s.mu.Lock()
		s.folder, parent = path, path
		s.mu.Unlock()
	}
	path, err := os.MkdirTemp(parent, "")
	s.must(err)
	return path
}

// Logf implements [testkit.TB].
func (s *Stage) Logf(format string, args ...any) {
	s.house.options.Log.LogAttrs(s.ctx, slog.LevelInfo, fmt.Sprintf(format, args...), slog.String("experiment", s.name))
}

// Errorf notes a failure, and goes on: the experiment comes to no verdict.
func (s *Stage) Errorf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, fmt.Errorf(format, args...))
}

// Fatalf ends the experiment: it comes to no verdict. It does not return.
func (s *Stage) Fatalf(format string, args ...any) {
	panic(&ending{err: fmt.Errorf(format, args...)})
}

// Skipf ends the experiment as one that cannot be played here. It does not return.
func (s *Stage) Skipf(format string, args ...any) {
	panic(&ending{skipped: true, err: fmt.Errorf(format, args...)})
}

// Seed is what chance is to begin with.
func (s *Stage) Seed() int64 { return s.house.options.Seed }

// Duration is the longest time in which new buyers come.
func (s *Stage) Duration() time.Duration { return s.house.options.Duration }

// Go runs f beside the scene. The function returned waits for it and ends the
// experiment where f did. At the end of the experiment f is waited for, and has to end
// with [Stage.Context]; what it failed with by itself counts then, too.
func (s *Stage) Go(f func()) (wait func()) {
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		err = attempt(f)
	}()
	var asked sync.Once
	s.Cleanup(func() {
		<-done
		asked.Do(func() {
			if err != nil && !errors.Is(err, context.Canceled) {
				s.Errorf("%w", err)
			}
		})
	})
	return func() {
		<-done
		asked.Do(func() {})
		s.must(err)
	}
}

const (
	// patience is how long a scene waits for something to come about. Generous: it is
	// spent only when something is wrong, and a loaded machine is not wrong.
	patience = 20 * time.Second
	// pollEvery is the pause between two looks at what does not announce itself.
	pollEvery = time.Millisecond
)

// Until waits until cond holds, which it asks every millisecond. What is awaited is
// said where it does not come about: the experiment then ends.
func (s *Stage) Until(what string, cond func() bool) {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-timeout.C:
			s.Fatalf("waited %v for this: %s", patience, what)
		case <-s.ctx.Done():
			s.Fatalf("while waiting for this: %s: %w", what, context.Cause(s.ctx))
		}
	}
}

// Pause lets time pass.
func (s *Stage) Pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
		s.Fatalf("while waiting: %w", context.Cause(s.ctx))
	}
}

// Fault notes that something is done to a server, or to the way there, from now until
// the function returned is called; call it at once for a moment.
func (s *Stage) Fault(what string) (over func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.faults)
	s.faults = append(s.faults, judge.Fault{From: now(), What: what})
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if f := &s.faults[n]; f.To == 0 {
			f.To = now()
		}
	}
}

// Faults are those noted so far.
func (s *Stage) Faults() []judge.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.faults)
}

// now is the clock of events.
func now() int64 { return time.Now().UnixNano() }
