package judge_test

import (
	"testing"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
)

func TestJudge(t *testing.T) {
	for _, tt := range histories {
		t.Run(tt.name, func(t *testing.T) {
			ev := script(t, tt.history)
			if tt.change != nil {
				tt.change(&ev)
			}
			j := judge.Judge(ev)
			proven := map[finding.Kind]bool{}
			for _, w := range j.Witnesses {
				proven[w.Kind] = true
				t.Log(w.Summary)
				check(t, w)
			}
			for _, info := range finding.Kinds() {
				if got := j.Anomalies[info.Kind]; got != tt.want[info.Kind] {
					t.Errorf("%s: %d, want %d", info.Kind, got, tt.want[info.Kind])
				}
				if j.Anomalies[info.Kind] > 0 && !proven[info.Kind] && len(ev.Events) > 0 {
					t.Errorf("%s: no witness", info.Kind)
				}
			}
		})
	}
}
