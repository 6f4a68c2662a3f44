package judge_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"

	"seckill/internal/eventlog"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/judge/judgetest"
	"seckill/internal/lab/witness"
	"seckill/internal/order"
)

// Counting overlaps and asking porcupine are two ways to the same answer.
func TestOverlapsAgreeWithPorcupine(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ev := randomHistory(rt)
		overlaps := judge.Judge(ev).Anomalies[finding.Overlaps]
		verdict, _ := judge.Mutex(ev)
		if verdict == porcupine.Unknown {
			rt.Fatal("not judged")
		}
		if (overlaps == 0) != (verdict == porcupine.Ok) {
			rt.Fatalf("%d overlaps, and porcupine says %s", overlaps, verdict)
		}
	})
}

// randomHistory is the history of a lock that mostly works: each holder asks at some time
// before, and is granted the lock around the end of the previous hold.
func randomHistory(rt *rapid.T) judge.Evidence {
	ev := judge.Evidence{Shared: rapid.Bool().Draw(rt, "shared")}
	slip := rapid.IntRange(0, 3).Draw(rt, "slip")
	at := judgetest.Origin
	holders := rapid.IntRange(0, 12)
	if rapid.IntRange(0, 9).Draw(rt, "long") == 0 {
		holders = rapid.IntRange(100, 200)
	}
	for i := range holders.Draw(rt, "holders") {
		e := eventlog.Event{
			Process: fmt.Sprint("api-", rapid.IntRange(1, 3).Draw(rt, "process")), Who: fmt.Sprint("buyer ", i), Key: "k",
			Owner:  fmt.Sprint("o", rapid.IntRange(0, 50).Draw(rt, "owner")),
			Shared: rapid.Bool().Draw(rt, "reader"),
		}
		granted := at + rapid.Int64Range(int64(-slip), 5).Draw(rt, "granted")
		asked := granted - rapid.Int64Range(0, 10).Draw(rt, "asked")
		end := granted + rapid.Int64Range(1, 10).Draw(rt, "held")
		add := func(kind eventlog.Kind, asked, at int64) {
			e.Kind, e.Began, e.At = kind, asked, at
			ev.Events = append(ev.Events, e)
		}
		add(eventlog.Acquired, asked, granted)
		switch rapid.IntRange(0, 9).Draw(rt, "end") {
		case 0:
			ev.Deaths = append(ev.Deaths, judge.Death{Process: e.Process, At: end})
		case 1:
			add(eventlog.Abandoned, 0, end)
		case 2:
			add(eventlog.Lost, 0, end+int64(10*time.Millisecond)) // recorded late
		default:
			add(eventlog.Releasing, 0, end)
			add(eventlog.Released, end, end+rapid.Int64Range(0, 5).Draw(rt, "reply"))
		}
		at = max(at, end)
	}
	return ev
}

// The judge answers, and does not panic, for a history of which any part is missing.
func TestTruncatedHistories(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, tt := range judgetest.Histories() {
		whole := tt.Evidence(t)
		for range 10 {
			ev := whole
			ev.Events = some(random, whole.Events)
			ev.Samples = some(random, whole.Samples)
			ev.Deaths = some(random, whole.Deaths)
			ev.End = whole.End * random.Int64N(2)
			j := judge.Judge(ev)
			for _, w := range witness.Proofs(j) {
				judgetest.CheckWitness(t, w)
			}
			if w, ok := witness.Picture(ev, ""); ok {
				judgetest.CheckWitness(t, w)
			}
			if t.Failed() {
				t.Fatalf("%s: %+v", tt.Name, ev)
			}
		}
	}
}

// some drops a few elements and shuffles the others: events are ordered by their times.
func some[T any](random *rand.Rand, all []T) []T {
	var left []T
	for _, one := range all {
		if random.IntN(5) > 0 {
			left = append(left, one)
		}
	}
	random.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
	return left
}

func FuzzJudge(f *testing.F) {
	f.Add(`{"at":1,"kind":"acquired","key":"k","owner":"a"}`+"\n"+`{"at":2,"kind":"releasing","key":"k","owner":"a","left_ms":1e300}`+"\n", int64(5))
	f.Add(`{"at":9,"kind":"released","key":"k"}`+"\n"+`{"at":-9,"kind":"committed","tx":1}`+"\n", int64(0))
	f.Fuzz(func(_ *testing.T, lines string, end int64) {
		events, err := eventlog.Parse([]byte(lines))
		if err != nil {
			return
		}
		ev := judge.Evidence{Events: events, End: end, Audit: &order.Audit{Orders: 1}, Rows: []order.Order{}, Acks: []judge.Ack{{Order: 1}}}
		for _, e := range events {
			if e.Stored != nil {
				ev.Samples = append(ev.Samples, judge.Sample{At: e.At, Key: e.Key, Stored: *e.Stored})
			}
		}
		judge.Judge(ev)
		witness.Picture(ev, "")
	})
}
