package httpapi

import (
	"bufio"
	"context"
	"io"
	"sync"
	"time"
)

// LogWriter gathers log lines, so that a request that logs does not pay for a
// system call. It buffers only while [LogWriter.Run] runs: before and after, a line
// goes straight through, and none is lost in an orderly stop. A process that is
// killed loses at most the lines of the last interval.
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

// Run buffers, and writes the buffer out every second and when it is full, until
// ctx ends. It returns what the last writing out returned.
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
			// A writer that fails keeps failing, and there is nowhere to say so.
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
