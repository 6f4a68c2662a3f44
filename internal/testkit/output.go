package testkit

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
)

// output keeps the latest output of a process, stdout and stderr together, and wakes the goroutines that wait for more.
type output struct {
	reading sync.Mutex // held while nobody reads

	mu   sync.Mutex
	text []byte
	more chan struct{} // closed and replaced at each write
}

// outputLimit bounds the memory for a server that logs for minutes, in bytes.
const outputLimit = 1 << 20

func newOutput() *output { return &output{more: make(chan struct{})} }

func (o *output) Write(p []byte) (int, error) {
	o.reading.Lock()
	defer o.reading.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	if over := len(o.text) - outputLimit; over > 0 {
		// Cut at the end of a line, and a large part at once, so that not every further line moves a megabyte.
		cut := over + outputLimit/4
		if end := bytes.IndexByte(o.text[cut:], '\n'); end >= 0 {
			cut += end + 1
		}
		o.text = bytes.Clone(o.text[cut:])
	}
	close(o.more)
	o.more = make(chan struct{})
	return len(p), nil
}

// read returns the kept output and a channel that is closed when there is more.
func (o *output) read() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text), o.more
}

// match returns the submatches of the first complete line that matches.
func (o *output) match(pattern *regexp.Regexp) (found []string, more <-chan struct{}) {
	text, more := o.read()
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		if found := pattern.FindStringSubmatch(strings.TrimRight(line, "\r\n")); found != nil {
			return found, more
		}
	}
	return nil, more
}

// tail returns the last n lines.
func (o *output) tail(n int) string {
	text, _ := o.read()
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
