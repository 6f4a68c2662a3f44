package lockclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync"
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
