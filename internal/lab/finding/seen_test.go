package finding_test

import (
	"testing"

	"seckill/internal/lab/finding"
)

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
