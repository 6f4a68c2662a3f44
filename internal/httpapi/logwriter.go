package httpapi

import (
	"bufio"
	"context"
	"io"
	"sync"
	"time"
)

// LogWriter buffers log lines, so that a request that logs does not wait for a system call. It buffers only
// while [LogWriter.Run] runs; before and after that it writes each line at once. An orderly stop loses no
// line. A process that is killed loses at most the lines of the last interval.
type LogWriter struct {
	mu        sync.Mutex
	buf       *bufio.Writer
	buffering bool
}

const (
	logBuffer   = 64 << 10
	logInterval = time.Second
)

// NewLogWriter returns a writer to w.
func NewLogWriter(w io.Writer) *LogWriter {
	return &LogWriter{buf: bufio.NewWriterSize(w, logBuffer)}
}

// Write implements [io.Writer]. It is safe for use by several goroutines.
func (l *LogWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.buf.Write(p)
	if err == nil && !l.buffering {
		err = l.buf.Flush()
	}
	return n, err
}

// Run buffers until ctx ends. It flushes the buffer every second and when it is full, and returns the
// error of the last flush.
func (l *LogWriter) Run(ctx context.Context) error {
	l.setBuffering(true)
	tick := time.NewTicker(logInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			l.setBuffering(false)
			return l.flush()
		case <-tick.C:
			// There is nowhere to report an error; the last flush returns it if it persists.
			_ = l.flush()
		}
	}
}

func (l *LogWriter) setBuffering(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buffering = on
}

func (l *LogWriter) flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Flush()
}
