package httpapi

import (
	"sync"
	"time"
)

// maxLines bounds the log lines with one outcome, per second. Anybody can have requests refused and repeat others, and each
// line has 250 bytes.
const maxLines = 10

// lineLimit counts the log lines of one outcome.
type lineLimit struct {
	mu         sync.Mutex
	begun      time.Time // the second that is counted
	lines      int       // written in that second
	suppressed int       // not written since the last line
}

// newLineLimits returns the limits by outcome: one for each code of a refusal, and for what a user can repeat and cause
// nothing new. Orders have none, since the stock bounds them.
func newLineLimits(of *problems) map[string]*lineLimit {
	limits := map[string]*lineLimit{"ok": {}, "replayed": {}}
	for _, p := range of.rows {
		limits[p.code] = &lineLimit{}
	}
	return limits
}

// take reports whether a line may be written now and, if so, how many were suppressed before it.
func (l *lineLimit) take(now time.Time) (suppressed int, ok bool) {
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
