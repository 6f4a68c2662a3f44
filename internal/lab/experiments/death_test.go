package experiments

import (
	"testing"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/judge/judgetest"
	"seckill/internal/testkit/fail"
)

// A key of the next buyer, who got in in time, is not the dead holder's, however late its release is seen.
func TestNextBuyersKeyIsNotTheDeadOnes(t *testing.T) {
	for name, tt := range map[string]struct {
		next  string
		stuck int
	}{
		"granted in time, its release seen late": {`
			830  store free
			831  18@2 acquired asked=20
			832  store 18
			1150 18@2 releasing stored=18
			1151 18@2 released asked=1150
			1230 store free
			1300 end`, 0},
		"granted too late": {`
			1230 store free
			1231 18@2 acquired asked=20
			1232 store 18
			1290 18@2 releasing stored=18
			1291 18@2 released asked=1290
			1291 store free
			1350 end`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			evidence := judgetest.Script(t, `
			1  17 acquired asked=0
			2  store 17
			10 api-1 killed`+tt.next)
			due := evidenceWhenDue(evidence, "buyer 18", judgetest.Nanos(t, "1200"))
			fail.Unequal(t, judge.Judge(due).Anomalies[finding.StuckKeys], tt.stuck, "stuck keys")
		})
	}
}
