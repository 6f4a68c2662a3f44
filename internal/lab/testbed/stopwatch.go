package testbed

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// experimentLimit is how long an experiment may take; most of it is for servers that start.
const experimentLimit = 2 * time.Minute

// stopwatch measures an experiment and ends it after a limit. It can be stopped: the time to
// build the service does not belong to the experiment.
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
