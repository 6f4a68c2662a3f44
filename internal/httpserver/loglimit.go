package httpserver

import (
	"sync"
	"time"
)

// maxLines bounds the log lines of one kind, per second. Anybody can have requests refused and repeat others, and each
// line has 250 bytes.
const maxLines = 10

// LineLimit bounds the log lines of one kind. Its zero value is ready to use.
type LineLimit struct {
	mu         sync.Mutex
	begun      time.Time // the second that is counted
	lines      int       // written in that second
	suppressed int       // not written since the last line
}

// Take reports whether a line may be written now and, if so, how many were suppressed before it.
func (l *LineLimit) Take(now time.Time) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.begun) >= time.Second {
		l.begun, l.lines = now, 0
	}
	if l.lines == maxLines {
		l.suppressed++
		return 0, false
	}
	l.lines++
	suppressed, l.suppressed = l.suppressed, 0
	return suppressed, true
}
