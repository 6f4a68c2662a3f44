package judge_test

import (
	"testing"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/judge/judgetest"
	"seckill/internal/lab/witness"
	"seckill/internal/testkit/fail"
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
				fail.Unequal(t, j.Anomalies[info.Kind], tt.Want[info.Kind], "%s", info.Kind)
				if j.Anomalies[info.Kind] > 0 && !proven[info.Kind] && len(ev.Events) > 0 {
					t.Errorf("%s: no witness", info.Kind)
				}
			}
		})
	}
}
