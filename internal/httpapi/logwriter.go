package httpapi

import (
	"context"
	"io"
	"sync"
	"time"
)

// LogWriter buffers log lines, so that a request that logs does not wait for a system call. It buffers only
// while [LogWriter.Run] runs; before and after that it writes each line at once. An orderly stop loses no
// line. A process that is killed loses at most the lines of the last interval.
//
// A write that fails, since the disk is full for example, is continued by the next flush at the byte at which
// it failed. So no line is torn, and none is lost as long as the buffer has room. Beyond that new lines are lost,
// each as a whole, until a write succeeds.
type LogWriter struct {
	mu        sync.Mutex
	out       io.Writer
	buf       []byte // what out has not taken yet
	buffering bool
}

const (
	logBuffer   = 64 << 10
	logInterval = time.Second
)

// NewLogWriter returns a writer to w.
func NewLogWriter(w io.Writer) *LogWriter {
	return &LogWriter{out: w, buf: make([]byte, 0, logBuffer)}
}

// Write implements [io.Writer]. It is safe for use by several goroutines. It takes a line as a whole, or not at
// all. An error says that a line is lost or, with len(p), that it has to wait for the next flush.
func (l *LogWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.buf) > 0 && len(l.buf)+len(p) > logBuffer {
		// A flush that fails may have written a part, and so made room.
		if err := l.flush(); err != nil && len(l.buf)+len(p) > logBuffer {
			return 0, err
		}
	}
	l.buf = append(l.buf, p...)
	if l.buffering && len(l.buf) <= logBuffer {
		return len(p), nil
	}
	return len(p), l.flush()
}

// Run buffers until ctx ends. It flushes the buffer every second and when it is full, and returns the
// error of the last flush. An earlier error that has passed is none at the end.
func (l *LogWriter) Run(ctx context.Context) error {
	_ = l.flushThenBuffer(true)
	tick := time.NewTicker(logInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return l.flushThenBuffer(false)
		case <-tick.C:
			// There is nowhere to report an error; the last flush returns it if it persists.
			_ = l.flushThenBuffer(true)
		}
	}
}

// flushThenBuffer flushes, and sets whether later lines are buffered.
func (l *LogWriter) flushThenBuffer(on bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buffering = on
	return l.flush()
}

// flush keeps what it cannot write. The lock is held.
func (l *LogWriter) flush() error {
	if len(l.buf) == 0 {
		return nil
	}
	n, err := l.out.Write(l.buf)
	if err == nil && n < len(l.buf) {
		err = io.ErrShortWrite
	}
	l.buf = l.buf[:copy(l.buf, l.buf[n:])]
	return err
}
