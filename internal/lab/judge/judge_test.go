package judge_test

import (
	"testing"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/judge/judgetest"
	"seckill/internal/lab/witness"
)

func TestJudge(t *testing.T) {
	for _, tt := range judgetest.Histories() {
		t.Run(tt.Name, func(t *testing.T) {
			ev := tt.Evidence(t)
			j := judge.Judge(ev)
			proven := map[finding.Kind]bool{}
			for _, w := range witness.Proofs(j) {
				proven[w.Kind] = true
				t.Log(w.Summary)
				judgetest.CheckWitness(t, w)
			}
			for _, info := range finding.Kinds() {
				if got := j.Anomalies[info.Kind]; got != tt.Want[info.Kind] {
					t.Errorf("%s: %d, want %d", info.Kind, got, tt.Want[info.Kind])
				}
				if j.Anomalies[info.Kind] > 0 && !proven[info.Kind] && len(ev.Events) > 0 {
					t.Errorf("%s: no witness", info.Kind)
				}
			}
		})
	}
}
