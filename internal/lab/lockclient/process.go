package lockclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab/judge"
)

// transport carries requests to a child and its replies back. Sending never blocks: a paused
// child reads nothing, and must not block callers that do not wait for it.
type transport struct {
	stdin *os.File // the child's standard input
	more  chan struct{}
	done  sync.WaitGroup

	mu      sync.Mutex
	queue   []byte // not written yet
	last    int64
	pending map[int64]chan reply
	partial []byte // of a line from the child
	invalid []byte // the first line that was no reply
}

func newTransport(feed *os.File) *transport {
	return &transport{stdin: feed, more: make(chan struct{}, 1), pending: map[int64]chan reply{}}
}

// run writes what is sent until the child has ended or the transport is closed.
func (w *transport) run(gone <-chan struct{}) {
	w.done.Go(func() {
		defer w.close()
		for {
			select {
			case <-w.more:
			case <-gone:
				return
			}
			w.mu.Lock()
			data := w.queue
			w.queue = nil
			w.mu.Unlock()
			if _, err := w.stdin.Write(data); err != nil {
				return // closed, or the child is ending
			}
		}
	})
}

// send queues a line.
func (w *transport) send(message []byte) {
	w.mu.Lock()
	w.queue = append(w.queue, message...)
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default: // the writer has not looked since the last one
	}
}

// close ends the child's input. A second call does nothing.
func (w *transport) close() { _ = w.stdin.Close() }

// wait returns when nothing more is written.
func (w *transport) wait() { w.done.Wait() }

func (w *transport) nextID() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	return w.last
}

// expect returns the channel for the reply of that number.
func (w *transport) expect(id int64) (<-chan reply, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.invalid != nil {
		return nil, fmt.Errorf("it printed something that is no answer: %.200q", w.invalid)
	}
	answer := make(chan reply, 1)
	w.pending[id] = answer
	return answer, nil
}

func (w *transport) forget(id int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, id)
}

// Write takes what the child prints, and delivers the replies.
func (w *transport) Write(data []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := append(w.partial, data...)
	for {
		message, after, whole := bytes.Cut(rest, []byte{'\n'})
		if !whole {
			break
		}
		w.deliver(message)
		rest = after
	}
	w.partial = rest
	return len(data), nil
}

// deliver drops a reply that nobody expects any more. The mutex is held.
func (w *transport) deliver(message []byte) {
	var r reply
	if err := json.Unmarshal(message, &r); err != nil {
		if w.invalid == nil {
			w.invalid = bytes.Clone(message)
		}
		return
	}
	if answer, ok := w.pending[r.ID]; ok {
		delete(w.pending, r.ID)
		answer <- r
	}
}

// invalidLine returns the first line that was no reply, or "".
func (w *transport) invalidLine() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.invalid)
}

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
	if !c.config.Untraced {
		if data, err := os.ReadFile(c.config.EventFile); err == nil {
			events, _ := eventlog.Parse(data) // those before a broken line
			evidence.Events = append(evidence.Events, events...)
		}
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
