// Package logbuffer keeps a log that nobody reads from stopping the service.
package logbuffer

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Writer hands log lines to one goroutine, which writes them. So nobody who logs waits for a system call, whatever
// becomes of the log: a full disk, a terminal that was stopped with Ctrl-S, a pipe whose reader hangs or has gone.
//
//   - Lines are written once a second, and as soon as half a buffer is full. A process that is killed loses the lines of
//     the last second at most; an orderly stop loses none that the reader takes.
//   - A write that fails is continued at the byte at which it failed, a second later. No line is torn.
//   - Lines for which the buffer has no room are dropped, each as a whole, and counted. The next line that goes out says
//     how many.
type Writer struct {
	out     io.Writer
	dropped func(lines int64) []byte
	half    chan struct{} // has a value when half of the buffer is full
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when the goroutine has ended; err is valid then
	err     error

	mu     sync.Mutex
	buf    []byte // what out has not been given yet
	closed bool
	lost   int64 // lines since the start
	said   int64 // how many of them a line has told of
}

const (
	// size is what the buffer holds. It is large enough for a burst of some thousand lines.
	size = 1 << 20
	// interval is how long a line may stay in the buffer.
	interval = time.Second
	// lastWrite is how long Close waits until the last lines are written.
	lastWrite = 2 * time.Second
)

// errFull says that a line was dropped.
var errFull = errors.New("logbuffer: the buffer is full, the line is dropped")

// New returns a writer to out, which must be closed. dropped makes the line that tells how many were dropped.
func New(out io.Writer, dropped func(lines int64) []byte) *Writer {
	w := &Writer{
		out: out, dropped: dropped,
		half: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
	}
	go w.run()
	return w
}

// Write implements [io.Writer]. It takes a line as a whole, or drops it and returns an error. It never waits for the
// reader, and several goroutines may call it.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.buf)+len(line) > size {
		w.lost++
		return 0, errFull
	}
	w.buf = append(w.buf, line...)
	if len(w.buf) > size/2 {
		select {
		case w.half <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}

// Dropped counts the lines that were dropped since the start.
func (w *Writer) Dropped() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// Close writes what is left, and returns an error if that fails or takes more than two seconds: the reader takes
// nothing.
func (w *Writer) Close() error {
	w.mu.Lock()
	first := !w.closed
	w.closed = true
	w.mu.Unlock()
	if first {
		close(w.closing)
	}
	late := time.NewTimer(lastWrite)
	defer late.Stop()
	select {
	case <-w.done:
		return w.err
	case <-late.C:
		return fmt.Errorf("the last lines of the log are lost: the reader took nothing for %v", lastWrite)
	}
}

// run is the goroutine that writes.
func (w *Writer) run() {
	defer close(w.done)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var spare []byte
	for last := false; !last; {
		select {
		case <-tick.C:
		case <-w.half:
		case <-w.closing:
			last = true
		}
		spare, w.err = w.flush(spare)
	}
}

// flush writes what is in the buffer, without the lock: a write may take for ever. Meanwhile lines gather in spare. It
// returns the buffer that is free afterwards.
func (w *Writer) flush(spare []byte) ([]byte, error) {
	w.mu.Lock()
	lines := w.buf
	if n := w.lost - w.said; n > 0 && len(lines) < size {
		lines = append(lines, w.dropped(n)...)
		w.said = w.lost
	}
	w.buf = spare[:0]
	w.mu.Unlock()
	if len(lines) == 0 {
		return lines, nil
	}
	n, err := w.out.Write(lines)
	if err == nil && n < len(lines) {
		err = io.ErrShortWrite
	}
	if err == nil {
		return lines, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := append(lines[:copy(lines, lines[n:])], w.buf...)
	spare, w.buf = w.buf, rest
	return spare, fmt.Errorf("write the log: %w", err)
}
