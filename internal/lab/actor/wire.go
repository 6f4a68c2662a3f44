package actor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync"
)

// wire carries requests to a child and its replies back. Sending never waits: a
// child that stands still reads nothing, and must not hold up who does not wait for
// it.
type wire struct {
	feed *os.File // the child's standard input
	more chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex
	queue   []byte // not written yet
	last    int64
	pending map[int64]chan reply
	partial []byte // of a line from the child
	noise   []byte // the first line that was no reply
}

func newWire(feed *os.File) *wire {
	return &wire{feed: feed, more: make(chan struct{}, 1), pending: map[int64]chan reply{}}
}

// run writes what is sent until the child is gone or the wire is closed.
func (w *wire) run(gone <-chan struct{}) {
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
			if _, err := w.feed.Write(data); err != nil {
				return // closed, or the child is about to be gone
			}
		}
	})
}

// send puts a line on its way.
func (w *wire) send(message []byte) {
	w.mu.Lock()
	w.queue = append(w.queue, message...)
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default: // the writer has not looked since the last one
	}
}

// close ends the child's input. A second call does nothing.
func (w *wire) close() { _ = w.feed.Close() }

// wait returns when nothing is written any more.
func (w *wire) wait() { w.done.Wait() }

func (w *wire) nextID() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	return w.last
}

// expect returns where the reply of that number will be delivered.
func (w *wire) expect(id int64) (<-chan reply, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.noise != nil {
		return nil, fmt.Errorf("it printed something that is no answer: %.200q", w.noise)
	}
	answer := make(chan reply, 1)
	w.pending[id] = answer
	return answer, nil
}

func (w *wire) forget(id int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, id)
}

// Write takes what the child prints, and delivers the replies.
func (w *wire) Write(data []byte) (int, error) {
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

// deliver is called with the mutex held. A reply that nobody expects any more is
// dropped.
func (w *wire) deliver(message []byte) {
	var r reply
	if err := json.Unmarshal(message, &r); err != nil {
		if w.noise == nil {
			w.noise = bytes.Clone(message)
		}
		return
	}
	if answer, ok := w.pending[r.ID]; ok {
		delete(w.pending, r.ID)
		answer <- r
	}
}

// stray is the first line that was no reply, or "".
func (w *wire) stray() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.noise)
}
