package testbed_test

import (
	"context"
	"testing"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/testbed"
	"seckill/internal/lock"
)

// free is a store in which every key is free.
type free struct{}

func (free) Inspect(context.Context, string) (lock.State, error) { return lock.State{}, nil }

// The live view of a run is consistent: nothing of the last moment is in it, of which a part may not have been read
// yet.
func TestSoFar(t *testing.T) {
	runScenario(t, embedded, nil, func(r *testbed.Rig) {
		began := time.Now().UnixNano()
		at := func(ms int64) int64 { return began + ms*int64(time.Millisecond) }
		const hour = 3_600_000
		r.Follow(func(ev *judge.Evidence) {
			ev.Events = append(ev.Events, eventlog.Event{At: at(0), Who: "past"}, eventlog.Event{At: at(hour), Who: "future"})
			ev.Deaths = append(ev.Deaths, judge.Death{Process: "p", At: at(hour)})
			ev.Pauses = append(ev.Pauses, judge.Pause{Process: "p", From: at(0), To: at(hour)}, judge.Pause{Process: "q", From: at(hour)})
		})
		r.Fault(i18n.Plain("a fault"))
		r.Observe(free{}, "one")
		r.Observe(free{}, "two")
		r.Observe(free{}, "two")
		var ev judge.Evidence
		r.Until("the first event is old enough", func() bool {
			ev = r.SoFar()
			return len(ev.Events) > 0 && len(ev.Samples) == 3 && len(ev.Faults) == 1
		})
		if len(ev.Events) != 1 || ev.Events[0].Who != "past" || len(ev.Deaths) != 0 {
			t.Errorf("events %+v, deaths %+v", ev.Events, ev.Deaths)
		}
		if len(ev.Pauses) != 1 || ev.Pauses[0].Process != "p" || ev.Pauses[0].To != 0 {
			t.Errorf("a pause that has not ended yet: %+v", ev.Pauses)
		}
		servers := map[string]string{}
		for _, s := range ev.Samples {
			servers[s.Key] += s.Server + " "
		}
		if servers["one"] != " " || servers["two"] != "store 1 store 2 " {
			t.Errorf("the servers are %q", servers)
		}
	})
}
