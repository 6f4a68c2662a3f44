package testkit

import "time"

// Stopwatch measures the time in which the machine let this process run. A limit on that time can be kept on a busy
// machine too, which a limit on the time of day cannot.
type Stopwatch struct {
	began   time.Time
	stop    chan struct{}
	stalled chan time.Duration
}

// stopwatchStep is how often a stopwatch looks whether the process runs.
const stopwatchStep = 5 * time.Millisecond

// StartStopwatch starts a stopwatch. It must be stopped once.
func StartStopwatch() *Stopwatch {
	s := &Stopwatch{began: time.Now(), stop: make(chan struct{}), stalled: make(chan time.Duration, 1)}
	go s.watch()
	return s
}

// watch adds up how late its timers are.
func (s *Stopwatch) watch() {
	var stalled time.Duration
	for last := s.began; ; {
		over := false
		select {
		case <-s.stop:
			over = true
		case <-time.After(stopwatchStep):
		}
		now := time.Now()
		stalled += max(0, now.Sub(last)-2*stopwatchStep)
		if last = now; over {
			s.stalled <- stalled
			return
		}
	}
}

// Stop returns the time since the start, without the time in which this process did not run.
func (s *Stopwatch) Stop() time.Duration {
	took := time.Since(s.began)
	close(s.stop)
	return max(0, took-<-s.stalled)
}
