package experiments

import (
	"slices"
	"testing"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
)

// Two keys are two locks: each holder has its own to the end.
func TestHoldersOfTwoKeysHoldBoth(t *testing.T) {
	t.Parallel()
	r := playedWith(t, "key-with-voucher", func(*lab.Setup) {})
	if r.Witness == nil {
		t.Fatalf("no picture: %+v", r)
	}
	for _, lane := range r.Witness.Lanes {
		if slices.ContainsFunc(lane.Spans, func(s finding.Span) bool { return s.Kind == finding.Believes }) {
			t.Errorf("%s only believes: %+v", lane.Name, lane.Spans)
		}
	}
}
