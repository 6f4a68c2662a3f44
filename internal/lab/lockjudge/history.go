package lockjudge

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Event is one step of a history.
type Event struct {
	At   time.Duration // since the first event that is shown
	Who  string        // a process, or the store
	What string
}

// history records what happened in one trial.
type history struct {
	since time.Time

	mu     sync.Mutex
	events []Event
}

func newHistory() *history { return &history{since: time.Now()} }

func (h *history) note(who, what string) { h.add(time.Since(h.since), who, what) }

func (h *history) add(at time.Duration, who, what string) {
	if strings.Contains(what, "warm-up") {
		return // it only opens connections
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, Event{at, who, what})
}

// begin notes a call when it has ended, at that time.
func (h *history) begin(who, what string) (done func(err error, success string)) {
	return func(err error, success string) {
		if err != nil {
			success = err.Error()
		}
		h.note(who, what+": "+success)
	}
}

// longest is how many events of a history are shown.
const longest = 10

// before returns the last events before a moment, with times since the first of them.
func (h *history) before(at time.Time) []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	var some []Event
	for _, e := range h.events {
		if e.At <= at.Sub(h.since) {
			some = append(some, e)
		}
	}
	slices.SortStableFunc(some, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	some = some[max(0, len(some)-longest):]
	for i := range some {
		if i > 0 {
			some[i].At -= some[0].At
		}
	}
	if len(some) > 0 {
		some[0].At = 0
	}
	return some
}
