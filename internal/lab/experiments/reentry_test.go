package experiments

import (
	"testing"

	"seckill/internal/trace"
)

func TestReentry(t *testing.T) { prove(t, reentry()) }

func TestOwnWaits(t *testing.T) {
	event := func(at int64, kind trace.Kind, owner string) trace.Event {
		return trace.Event{At: at, Asked: at - 5, Kind: kind, Key: "k", Owner: owner}
	}
	for name, test := range map[string]struct {
		events []trace.Event
		want   int
	}{
		"waits for itself":             {[]trace.Event{event(10, trace.Acquired, "a"), event(90, trace.Refused, "a"), event(95, trace.Releasing, "a")}, 1},
		"waits for another":            {[]trace.Event{event(10, trace.Acquired, "a"), event(90, trace.Refused, "b"), event(95, trace.Releasing, "a")}, 0},
		"asks after it gave it back":   {[]trace.Event{event(10, trace.Acquired, "a"), event(20, trace.Releasing, "a"), event(90, trace.Refused, "a")}, 0},
		"was refused before it got it": {[]trace.Event{event(10, trace.Refused, "a"), event(20, trace.Acquired, "a")}, 0},
		"has no owner":                 {[]trace.Event{event(10, trace.Acquired, ""), event(90, trace.Refused, "")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if found := ownWaits(test.events); len(found) != test.want {
				t.Errorf("found %d, want %d: %v", len(found), test.want, found)
			}
		})
	}
}
