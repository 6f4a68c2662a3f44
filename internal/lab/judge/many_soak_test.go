package judge_test

import (
	"fmt"
	"testing"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/judge/judgetest"
	"seckill/internal/testkit"
)

// TestSoakManyEvents: a long history is judged quickly.
func TestSoakManyEvents(t *testing.T) {
	testkit.Soak(t)
	for _, tt := range []struct {
		name string
		hold int64 // ms, with a grant every 2
	}{{"one after the other", 1}, {"a chain of two", 3}, {"everybody at once", 400}} {
		t.Run(tt.name, func(t *testing.T) {
			ev := crowd(6_000, tt.hold)
			began := time.Now()
			j := judge.Judge(ev)
			took := time.Since(began)
			t.Logf("%d events: %v of 20 s; %v, %v", len(ev.Events), took, j.Anomalies, j.Measures)
			if took > 20*time.Second {
				t.Error("it took longer")
			}
		})
	}
}

func crowd(buyers int, hold int64) judge.Evidence {
	const ms = int64(time.Millisecond)
	var ev judge.Evidence
	for i := range int64(buyers) {
		at := judgetest.Origin + 2*ms*i
		e := eventlog.Event{Process: fmt.Sprint("api-", i%2), Who: fmt.Sprint("buyer ", i), User: i}
		add := func(kind eventlog.Kind, asked, at int64, with func(*eventlog.Event)) {
			e := e
			e.Kind, e.Began, e.At = kind, asked, at
			if with != nil {
				with(&e)
			}
			ev.Events = append(ev.Events, e)
		}
		left := 100.0
		locks := func(e *eventlog.Event) {
			e.Key, e.Owner, e.LeftMS = "k", fmt.Sprint("o", i), &left
			e.Stored = &eventlog.Stored{Owner: fmt.Sprint("o", max(0, i-i%2))}
		}
		sells := func(e *eventlog.Event) {
			e.Tx, e.Voucher, e.Stock, e.Mode, e.Order = i+1, 1, int64(buyers)-i, eventlog.ModeUnguarded, i
		}
		end := at + hold*ms
		add(eventlog.Acquiring, 0, at-200*ms, locks)
		add(eventlog.Acquired, at-200*ms, at, locks)
		add(eventlog.Begun, 0, at+1, sells)
		add(eventlog.Read, at+1, at+2, sells)
		add(eventlog.Write, 0, end-6, sells)
		add(eventlog.Insert, 0, end-5, sells)
		add(eventlog.Committed, end-4, end-3, sells)
		add(eventlog.Releasing, end-2, end-1, locks)
		add(eventlog.Released, end-1, end+ms/10, locks)
		ev.Samples = append(ev.Samples,
			judge.Sample{At: at, Key: "k", Stored: eventlog.Stored{Owner: fmt.Sprint("o", i), TTLMS: &left}},
			judge.Sample{At: at + ms, Key: "k"})
	}
	return ev
}
