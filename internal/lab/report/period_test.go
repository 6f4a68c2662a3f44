package report

import (
	"testing"

	"seckill/internal/lab/finding"
)

// Two pictures can be put on one axis although one of them shows only what happened late in its run.
func TestPicturesOnOneAxis(t *testing.T) {
	shows := func(from, to float64) []finding.Lane {
		return []finding.Lane{{Name: "buyer 1", Spans: []finding.Span{{From: from, To: to}}}}
	}
	for name, tc := range map[string]struct{ first, second [2]float64 }{
		"both begin with the run": {[2]float64{0, 1500}, [2]float64{3, 1800}},
		"one begins late":         {[2]float64{0, 1500}, [2]float64{800, 1800}},
		"both begin late":         {[2]float64{5000, 6500}, [2]float64{5800, 6200}},
	} {
		from, to := min(tc.first[0], tc.second[0]), max(tc.first[1], tc.second[1])
		firstFrom, firstTo := period(shows(tc.first[0], tc.first[1]), &from, to)
		secondFrom, secondTo := period(shows(tc.second[0], tc.second[1]), &from, to)
		if firstFrom != secondFrom || firstTo != secondTo || firstFrom > from || firstTo < to {
			t.Errorf("%s: one is drawn from %v to %v, the other from %v to %v", name, firstFrom, firstTo, secondFrom, secondTo)
		}
	}
	if from, to := period(shows(800, 1800), nil, 0); from <= 0 || to != 1800 {
		t.Errorf("one alone that begins late is drawn from %v to %v", from, to)
	}
}
