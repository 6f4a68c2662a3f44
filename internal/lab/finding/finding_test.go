package finding_test

import (
	"errors"
	"strings"
	"testing"

	"seckill/internal/lab/finding"
	"seckill/internal/testkit/fail"
)

func TestParsePrediction(t *testing.T) {
	for text, want := range map[string]finding.Prediction{
		"holds":              {Verdict: finding.Holds},
		" Breaks ":           {Verdict: finding.Breaks},
		"breaks:oversold":    {Verdict: finding.Breaks, Kind: finding.Oversold},
		"breaks: stuck_keys": {Verdict: finding.Breaks, Kind: finding.StuckKeys},
		"breaks:two holders": {Verdict: finding.Breaks, Kind: finding.Overlaps},
		"breaks:two-holders": {Verdict: finding.Breaks, Kind: finding.Overlaps},
		"失守：两个持有者\r\n":       {Verdict: finding.Breaks, Kind: finding.Overlaps},
		"守住":                 {Verdict: finding.Holds},
	} {
		got, err := finding.ParsePrediction(text)
		if err != nil || got != want {
			t.Errorf("%q is %+v, %v; want %+v", text, got, err, want)
		}
		if again, err := finding.ParsePrediction(got.String()); err != nil || again != got {
			t.Errorf("%q is printed as %q, which is %+v, %v", text, got, again, err)
		}
	}
}

// The error for a misspelt anomaly lists all of them.
func TestParsePredictionRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                "it is holds, breaks, or breaks:KIND",
		"perhaps":         `"perhaps"; it is holds, breaks`,
		"breaks:":         `there is no anomaly ""`,
		"breaks:vanished": `there is no anomaly "vanished"`,
		"holds:oversold":  "has no anomaly to name",
	} {
		_, err := finding.ParsePrediction(text)
		if !errors.Is(err, finding.ErrNoPrediction) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", text, err, want)
		}
		if strings.HasPrefix(text, "breaks:") {
			for _, info := range finding.Kinds() {
				if !strings.Contains(err.Error(), info.Title) {
					t.Errorf("%q: the error does not name %s: %v", text, info.Title, err)
				}
			}
		}
	}
}

func TestPredictionComesTrue(t *testing.T) {
	broken := finding.Result{Observed: finding.Breaks, Anomalies: map[finding.Kind]int{finding.Oversold: 3, finding.Overlaps: 0}}
	whole := finding.Result{Observed: finding.Holds, Anomalies: map[finding.Kind]int{finding.Overlaps: 1}}
	for _, c := range []struct {
		text  string
		r     finding.Result
		right bool
	}{
		{"breaks", broken, true},
		{"breaks:oversold", broken, true},
		{"breaks:overlaps", broken, false}, // it breaks, and not in this way
		{"holds", broken, false},
		{"holds", whole, true},
		{"breaks", whole, false},
		{"breaks:overlaps", whole, false}, // an anomaly that does not decide
	} {
		p, err := finding.ParsePrediction(c.text)
		fail.NowIf(t, err)
		p.Judge(&c.r)
		if c.r.Prediction != c.text || c.r.PredictionRight == nil || *c.r.PredictionRight != c.right {
			t.Errorf("%s of what %s: %+v, want %v", c.text, c.r.Observed, c.r.PredictionRight, c.right)
		}
	}
	for _, r := range []finding.Result{{Skipped: "no server"}, {Failed: "too late"}} {
		finding.Prediction{Verdict: finding.Holds}.Judge(&r)
		if r.Prediction != "holds" || r.PredictionRight != nil {
			t.Errorf("without a verdict: %+v", r)
		}
	}
}

func TestSeen(t *testing.T) {
	about := []finding.Kind{finding.LostUpdates, finding.Oversold}
	for want, r := range map[string]finding.Result{
		"Seen: lost updates 2. Not seen: oversold. Also seen, but not counted in the verdict: two holders 1.": {
			Expect: finding.Breaks, Anomalies: map[finding.Kind]int{finding.LostUpdates: 2, finding.Overlaps: 1},
		},
		"Expected, and not seen: oversold, lost updates.":             {Expect: finding.Breaks},
		"Not seen: oversold, lost updates.":                           {Expect: finding.Holds},
		"Not expected, and seen: oversold 1. Not seen: lost updates.": {Expect: finding.Holds, Anomalies: map[finding.Kind]int{finding.Oversold: 1}},
		"Seen: oversold 1. Expected, and not seen: lost updates.":     {Expect: finding.Breaks, Anomalies: map[finding.Kind]int{finding.Oversold: 1}},
	} {
		r.About = about
		if got := r.Seen().String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
