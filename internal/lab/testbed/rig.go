package testbed

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
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/testkit"
)

// Rig is the testbed of one experiment. It is a [testkit.TB], so testkit.NewRedis and the like start servers for this
// experiment only.
type Rig struct {
	env       *Environment
	name      string
	ctx       context.Context
	cancel    context.CancelCauseFunc
	stopwatch *stopwatch // nil for the run that owns what is shared

	mu       sync.Mutex
	cleanups []func()
	errs     []error // of Errorf
	folder   string
	required map[Server]bool
	engine   finding.Engine
	faults   []judge.Fault
	// sources and observers are what [Rig.SoFar] asks.
	sources     []func(*judge.Evidence)
	observers   []*Observer
	sampleEvery time.Duration // the pause of new observers
}

var _ testkit.TB = (*Rig)(nil)

func newRig(ctx context.Context, e *Environment, name string) *Rig {
	r := &Rig{env: e, name: name, required: map[Server]bool{}, sampleEvery: pollInterval}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	return r
}

// end runs the cleanups, the last one first, and returns the errors of the cleanups and of Errorf.
func (r *Rig) end() error {
	r.cancel(nil)
	for {
		r.mu.Lock()
		n := len(r.cleanups)
		if n == 0 {
			err := errors.Join(r.errs...)
			r.errs = nil
			r.mu.Unlock()
			return err
		}
		last := r.cleanups[n-1]
		r.cleanups = r.cleanups[:n-1]
		r.mu.Unlock()
		if err := attempt(last); err != nil {
			r.Errorf("clean up: %w", err)
		}
	}
}

// abort is what Fatalf and Skipf panic with.
type abort struct {
	skipped bool
	err     error
}

// Error implements error.
func (e *abort) Error() string { return e.err.Error() }

// Unwrap is the error.
func (e *abort) Unwrap() error { return e.err }

// attempt calls f and returns the value with which it was aborted or panicked, if it was.
func attempt(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *abort:
			err = r
		default:
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	f()
	return nil
}

// Must ends the experiment if err is not nil.
func (r *Rig) Must(err error) {
	if err == nil {
		return
	}
	if end, ok := errors.AsType[*abort](err); ok {
		panic(end)
	}
	r.Fatalf("%w", err)
}

// Helper implements [testkit.TB].
func (r *Rig) Helper() {}

// Name implements [testkit.TB].
func (r *Rig) Name() string { return r.name }

// Context is cancelled when the experiment ends, just before its cleanups.
func (r *Rig) Context() context.Context { return r.ctx }

// Elapsed is how long the experiment has taken, without the time in which the service was built.
func (r *Rig) Elapsed() time.Duration { return r.stopwatch.elapsed() }

// Failed implements [testkit.TB].
func (r *Rig) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.errs) > 0
}

// Cleanup registers f to be called at the end of the experiment, before the functions that were registered earlier.
func (r *Rig) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

// TempDir returns a new folder that is removed at the end of the experiment.
func (r *Rig) TempDir() string {
	r.mu.Lock()
	parent := r.folder
	r.mu.Unlock()
	if parent == "" {
		path, remove, err := testkit.Folder()
		r.Must(err)
		r.Cleanup(func() { r.Must(remove()) })
		r.mu.Lock()
		r.folder, parent = path, path
		r.mu.Unlock()
	}
	path, err := os.MkdirTemp(parent, "")
	r.Must(err)
	return path
}

// Logf implements [testkit.TB].
func (r *Rig) Logf(format string, args ...any) {
	r.env.options.Log.LogAttrs(r.ctx, slog.LevelInfo, fmt.Sprintf(format, args...), slog.String("experiment", r.name))
}

// Errorf records a failure and goes on: the experiment comes to no verdict.
func (r *Rig) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, fmt.Errorf(format, args...))
}

// Fatalf ends the experiment: it comes to no verdict. It does not return.
func (r *Rig) Fatalf(format string, args ...any) {
	panic(&abort{err: fmt.Errorf(format, args...)})
}

// Skipf ends the experiment as one that cannot be run here. It does not return.
func (r *Rig) Skipf(format string, args ...any) {
	panic(&abort{skipped: true, err: fmt.Errorf(format, args...)})
}

// Seed is the seed of random numbers.
func (r *Rig) Seed() int64 { return r.env.options.Seed }

// Duration is the longest time in which new buyers come.
func (r *Rig) Duration() time.Duration { return r.env.options.Duration }

// Go runs f concurrently. The returned function waits for f, and ends the experiment if f aborted it. The end of the
// experiment waits for f too, so f must end with [Rig.Context]; its failure counts then, too.
func (r *Rig) Go(f func()) (wait func()) {
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		err = attempt(f)
	}()
	var asked sync.Once
	r.Cleanup(func() {
		<-done
		asked.Do(func() {
			if err != nil && !errors.Is(err, context.Canceled) {
				r.Errorf("%w", err)
			}
		})
	})
	return func() {
		<-done
		asked.Do(func() {})
		r.Must(err)
	}
}

const (
	// waitLimit bounds how long a scenario waits for a condition. It is generous, because it is used up only when
	// something is wrong, and a busy machine is not wrong.
	waitLimit = 20 * time.Second
	// pollInterval is the pause between two checks of a condition.
	pollInterval = time.Millisecond
)

// Until waits until cond holds, which it checks every millisecond. Otherwise it ends the experiment, and what names the
// condition in the error.
func (r *Rig) Until(what string, cond func() bool) {
	timeout := time.NewTimer(waitLimit)
	defer timeout.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-timeout.C:
			r.Fatalf("waited %v for this: %s", waitLimit, what)
		case <-r.ctx.Done():
			r.Fatalf("while waiting for this: %s: %w", what, context.Cause(r.ctx))
		}
	}
}

// Sleep waits for d, or ends the experiment if that ends first.
func (r *Rig) Sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.ctx.Done():
		r.Fatalf("while waiting: %w", context.Cause(r.ctx))
	}
}

// Fault records that something is done to a server, or to a connection, from now until the returned function is called;
// call it at once for a single moment.
func (r *Rig) Fault(what i18n.Text) (over func()) { return r.FaultOf("", what) }

// FaultOf records that something is done to the connections of one process.
func (r *Rig) FaultOf(process string, what i18n.Text) (over func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.faults)
	r.faults = append(r.faults, judge.Fault{From: now(), Process: process, What: what})
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if f := &r.faults[n]; f.To == 0 {
			f.To = now()
		}
	}
}

// Faults returns those recorded so far.
func (r *Rig) Faults() []judge.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.faults)
}

// now is the clock of events.
func now() int64 { return time.Now().UnixNano() }

// experimentLimit is how long an experiment may take; most of it is for servers that start.
const experimentLimit = 2 * time.Minute

// stopwatch measures an experiment and ends it after a limit. It can be stopped: the time to build the service does not
// belong to the experiment.
type stopwatch struct {
	limit time.Duration
	timer *time.Timer

	mu      sync.Mutex
	running bool
	started time.Time     // last
	before  time.Duration // time measured before that
}

// startStopwatch returns a running stopwatch that calls end at its limit.
func startStopwatch(limit time.Duration, end context.CancelCauseFunc) *stopwatch {
	c := &stopwatch{limit: limit, running: true, started: time.Now()}
	c.timer = time.AfterFunc(limit, func() {
		end(fmt.Errorf("the experiment took longer than %v: %w", limit, context.DeadlineExceeded))
	})
	return c
}

// stop stops it and returns the function that starts it again.
func (c *stopwatch) stop() (start func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running {
		return func() {}
	}
	c.timer.Stop()
	c.running = false
	c.before += time.Since(c.started)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running, c.started = true, time.Now()
		c.timer.Reset(c.limit - c.before)
	}
}

// elapsed is the measured time.
func (c *stopwatch) elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running {
		return c.before
	}
	return c.before + time.Since(c.started)
}
