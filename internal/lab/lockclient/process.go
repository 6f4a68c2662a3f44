package lockclient

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab/judge"
)

// exit is how a process ended; at is 0 while it runs.
type exit struct {
	at     int64
	killed bool // by Kill
}

// pausePeriod is a time in which the process was paused; to is 0 while it is.
type pausePeriod struct{ from, to int64 }

// Pause stops the process (SIGSTOP), and returns when all of its threads are stopped.
func (c *Client) Pause() {
	c.t.Helper()
	c.process.Pause()
	select {
	case <-c.process.Done():
		c.t.Fatalf("lock client %s: pause: %v", c.config.Name, ErrDead)
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped() {
		c.pauses = append(c.pauses, pausePeriod{from: time.Now().UnixNano()})
	}
}

// Resume continues a paused process.
func (c *Client) Resume() {
	c.mu.Lock()
	if c.stopped() {
		c.pauses[len(c.pauses)-1].to = time.Now().UnixNano()
	}
	c.mu.Unlock()
	c.process.Resume()
}

// Kill kills the process (SIGKILL) and returns when it has ended. Requests that are not
// answered by then return [ErrDead].
func (c *Client) Kill() {
	c.mu.Lock()
	if c.exit.at == 0 {
		c.exit = exit{at: time.Now().UnixNano(), killed: true}
	}
	c.mu.Unlock()
	c.process.Kill()
}

// Done is closed when the process has ended, killed by Kill or by a fault.
func (c *Client) Done() <-chan struct{} { return c.process.Done() }

// AddTo adds the client's events, death and pauses to the evidence.
func (c *Client) AddTo(evidence *judge.Evidence) {
	c.t.Helper()
	evidence.Events = append(evidence.Events, c.Events()...)
	c.addFaults(evidence)
}

// addSoFar does the same for an experiment that still runs, which nothing here may fail.
func (c *Client) addSoFar(evidence *judge.Evidence) {
	if data, err := os.ReadFile(c.config.EventFile); err == nil {
		events, _ := eventlog.Parse(data) // those before a broken line
		evidence.Events = append(evidence.Events, events...)
	}
	c.addFaults(evidence)
}

// addFaults adds the client's death and pauses.
func (c *Client) addFaults(evidence *judge.Evidence) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.exit.at != 0 {
		evidence.Deaths = append(evidence.Deaths, judge.Death{Process: c.config.Name, At: c.exit.at})
	}
	for _, p := range c.pauses {
		if p.to == 0 {
			p.to = c.exit.at // 0 if it is still paused
		}
		evidence.Pauses = append(evidence.Pauses, judge.Pause{Process: c.config.Name, From: p.from, To: p.to})
	}
}

// noteExit records when the process ends.
func (c *Client) noteExit() {
	<-c.process.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.exit.at == 0 {
		c.exit.at = time.Now().UnixNano()
	}
}

// stopped reports whether the process is paused. The mutex is held.
func (c *Client) stopped() bool {
	return len(c.pauses) > 0 && c.pauses[len(c.pauses)-1].to == 0
}

// killedBySignal reports whether a process was ended by SIGKILL, as by a fault.
func killedBySignal(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
