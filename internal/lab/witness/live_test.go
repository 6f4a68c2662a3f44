package witness_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/judge/judgetest"
	"seckill/internal/lab/witness"
	"seckill/internal/testkit/fail"
)

// The picture of a running experiment shows the holder, the waiters, and what has gone wrong so far. The time axis
// leaves room for the events that follow.
func TestLive(t *testing.T) {
	ev := judgetest.Script(t, `
		0   17 acquiring
		1   17 acquired asked=0 left=100
		1.5 store 17 ttl=99
		10  16@1 acquiring
		20  18@2 acquiring
		101 store free
		102 18@2 acquired asked=20 left=100
		102.5 store 18 ttl=99
		120 19@2 acquiring
		140 end`)
	w, _, ok := witness.Live(judge.Look(ev), 5, nil)
	if !ok {
		t.Fatal("there is no picture")
	}
	got := strings.Join(drawn(w), "\n")
	fail.Without(t, got,
		"holds(1-101 buyer 17 (api-1)) !believes(101-140 buyer 17 (api-1))", "!holds(102-140 buyer 18 (api-2))", "waits(120-140 buyer 19 (api-2))", "stored(2-101 buyer 17)",
	)
	if got := actors(w); len(got) != 4 || got[1] != "buyer 18 (api-2)" || got[2] != "buyer 16 (api-1)" {
		t.Errorf("the lanes are %q: want those that only wait last", got)
	}
	// A lane stays with its buyer, also where a later one is more active.
	past := judge.Look(ev.Until(ev.End - int64(125*time.Millisecond)))
	_, first, _ := witness.Live(past, 2, nil)
	if now, _, _ := witness.Live(judge.Look(ev), 2, first); !slices.Equal(actors(now), []string{first[0].Name(), first[1].Name()}) {
		t.Errorf("the lanes of %v are now those of %q", first, actors(now))
	}
	if all, _, _ := witness.Live(judge.Look(ev), 5, first[1:]); actors(all)[0] != first[1].Name() {
		t.Errorf("the first lane of %q is not that of %v any more", actors(all), first[1])
	}
	if w.Until != 500 {
		t.Errorf("the axis goes to %v ms", w.Until)
	}
	if few, _, _ := witness.Live(judge.Look(ev), 2, nil); len(actors(few)) != 2 || actors(few)[1] != "buyer 18 (api-2)" {
		t.Errorf("of three actors, two are %q: want those that got in", actors(few))
	}
	if _, _, ok := witness.Live(judge.Look(judge.Evidence{}), 5, nil); ok {
		t.Error("there is a picture of nothing")
	}
}

func actors(w finding.Witness) (names []string) {
	for _, lane := range w.Lanes {
		if lane.Role == finding.Actor {
			names = append(names, lane.Name)
		}
	}
	return names
}
