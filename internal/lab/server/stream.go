package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxStreams is the number of pages that can watch. A stream costs a connection and a goroutine.
	maxStreams = 32
	// keptEvents is how many events a page may have missed and still gets, when it comes back.
	keptEvents = 64
	// keepAlive is the longest silence of a stream.
	keepAlive = 15 * time.Second
)

// streams are the pages that watch. Every event is the whole state of the session, so the newest one is enough for a
// page that has just been opened.
type streams struct {
	ctx  context.Context
	name string // tells these events from those of an earlier process

	mu      sync.Mutex
	events  []event // the newest last
	seq     int64
	open    int
	changed chan struct{} // closed when there is a new event
}

type event struct {
	seq  int64
	data []byte
}

func newStreams(ctx context.Context) *streams {
	return &streams{ctx: ctx, name: strings.ToLower(rand.Text()[:8]), changed: make(chan struct{})}
}

// publish tells every page the new state.
func (s *streams) publish(state any) {
	data, err := json.Marshal(state)
	if err != nil {
		return // a state that cannot be encoded would be a mistake of this package, which its tests show
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	s.events = append(s.events, event{s.seq, data})
	if n := len(s.events) - keptEvents; n > 0 {
		s.events = append(s.events[:0], s.events[n:]...)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// watched reports whether anybody watches.
func (s *streams) watched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open > 0
}

// serve is GET /api/events. A page that reconnects sends Last-Event-ID and gets the events that it missed. If they are
// no longer stored, it gets the event "gap" first.
func (s *streams) serve(w http.ResponseWriter, r *http.Request) error {
	s.mu.Lock()
	if s.open >= maxStreams {
		s.mu.Unlock()
		return errStreams
	}
	s.open++
	last, known := s.position(r.Header.Get("Last-Event-ID"))
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.open--
		s.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	if !known {
		if _, err := fmt.Fprint(w, "event: gap\ndata: {}\n\n"); err != nil {
			return nil // the page is gone
		}
	}
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for {
		newer, changed := s.after(last)
		for _, e := range newer {
			if _, err := fmt.Fprintf(w, "id: %s-%d\ndata: %s\n\n", s.name, e.seq, e.data); err != nil {
				return nil // the page is gone
			}
			last = e.seq
		}
		if out.Flush() != nil {
			return nil
		}
		select {
		case <-changed:
		case <-alive.C:
			if _, err := fmt.Fprint(w, ": alive\n\n"); err != nil {
				return nil // the page is gone
			}
		case <-r.Context().Done():
			return nil
		case <-s.ctx.Done():
			return nil
		}
	}
}

// position reads Last-Event-ID. A new page begins with the newest event. It reports false if there are events that the
// page has missed and that are gone. The mutex is held.
func (s *streams) position(last string) (seq int64, known bool) {
	newest := max(0, s.seq-1)
	if last == "" {
		return newest, true
	}
	name, number, _ := strings.Cut(last, "-")
	seq, err := strconv.ParseInt(number, 10, 64)
	if err != nil || name != s.name || seq < 0 || seq > s.seq || len(s.events) > 0 && seq+1 < s.events[0].seq {
		return newest, false
	}
	return seq, true
}

// after returns the events after one, and what is closed when there is another.
func (s *streams) after(seq int64) (newer []event, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range s.events {
		if e.seq > seq {
			newer = append(newer, s.events[i:]...)
			break
		}
	}
	return newer, s.changed
}
