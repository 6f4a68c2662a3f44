package experiments

import (
	"testing"

	"seckill/internal/eventlog"
)

func TestOwnWaits(t *testing.T) {
	event := func(at int64, kind eventlog.Kind, owner string) eventlog.Event {
		return eventlog.Event{At: at, Began: at - 5, Kind: kind, Key: "k", Owner: owner}
	}
	for name, test := range map[string]struct {
		events []eventlog.Event
		want   int
	}{
		"waits for itself":             {[]eventlog.Event{event(10, eventlog.Acquired, "a"), event(90, eventlog.Refused, "a"), event(95, eventlog.Releasing, "a")}, 1},
		"waits for another":            {[]eventlog.Event{event(10, eventlog.Acquired, "a"), event(90, eventlog.Refused, "b"), event(95, eventlog.Releasing, "a")}, 0},
		"asks after it gave it back":   {[]eventlog.Event{event(10, eventlog.Acquired, "a"), event(20, eventlog.Releasing, "a"), event(90, eventlog.Refused, "a")}, 0},
		"was refused before it got it": {[]eventlog.Event{event(10, eventlog.Refused, "a"), event(20, eventlog.Acquired, "a")}, 0},
		"has no owner":                 {[]eventlog.Event{event(10, eventlog.Acquired, ""), event(90, eventlog.Refused, "")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if found := selfWaits(test.events); len(found) != test.want {
				t.Errorf("found %d, want %d: %v", len(found), test.want, found)
			}
		})
	}
}
