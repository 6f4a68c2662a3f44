package witness_test

import (
	"testing"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/judge/judgetest"
	"seckill/internal/lab/witness"
)

// 17 gives up an acquisition that was granted, and 18 waits for a lock that nobody holds.
const gaveUp = `
	0   17 acquiring
	1   store 17 ttl=100
	50  17 refused asked=0 err=deadline
	60  18@2 acquiring
	101 store free
	102 18@2 acquired asked=60
	102 store 18
	150 18@2 releasing
	151 18@2 released asked=150
	151 store free
	160 19 acquiring
	161 19 acquired asked=160
	162 19 releasing
	163 19 released asked=162
`

func TestTell(t *testing.T) {
	ev := judgetest.Script(t, gaveUp)
	w := witness.Tell(ev, witness.Story{
		Kind: finding.StuckKeys, Key: ev.Events[0].Key, Who: []string{"buyer 17", "buyer 18"},
		From: judgetest.Nanos(t, "0"), To: judgetest.Nanos(t, "102"),
		Summary: i18n.Key("at %s", witness.At(judgetest.Nanos(t, "102"))),
		Wrong: []witness.Wrong{
			{Who: "buyer 17", Span: finding.Stored, Mark: finding.Refuses},
			{Who: "buyer 18", Span: finding.Waits},
			{Who: "buyer 19", Span: finding.Believes}, // not in the picture
		},
	})
	judgetest.CheckWitness(t, w)
	if w.Summary.String() != "At 102 ms" { // since the first event
		t.Errorf("the summary is %q", w.Summary)
	}
	wrong := map[string]int{}
	for _, lane := range w.Lanes {
		for _, s := range lane.Spans {
			if s.Wrong {
				wrong[lane.Name+" "+string(s.Kind)+" "+s.Who]++
			}
		}
		for _, m := range lane.Marks {
			if m.Wrong {
				wrong[lane.Name+" "+string(m.Kind)]++
			}
		}
	}
	const a, b, store = "buyer 17 (api-1)", "buyer 18 (api-2)", "lock store"
	for _, want := range []string{a + " refused", b + " waits " + b, store + " stored " + a} {
		if wrong[want] != 1 {
			t.Errorf("%q is marked %d times", want, wrong[want])
		}
		delete(wrong, want)
	}
	if len(wrong) > 0 {
		t.Errorf("marked as well: %v", wrong)
	}
}

func TestTellOfNobody(t *testing.T) {
	w := witness.Tell(judge.Evidence{}, witness.Story{Summary: i18n.Key("%s", witness.At(0))})
	if len(w.Lanes) > 0 {
		t.Errorf("there are lanes: %v", w.Lanes)
	}
}
