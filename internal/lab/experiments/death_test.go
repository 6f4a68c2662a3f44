package experiments

import (
	"testing"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/judge/judgetest"
)

// If a dead holder's lock lasts longer than the hypothesis says, the experiment breaks, even
// though the next buyer gets in.
func TestDeadHoldersLockMustEndInTime(t *testing.T) {
	const tooLong = 1600 * time.Millisecond
	for id, lengthen := range map[string]func(*lab.Setup){
		"naive-holder-killed":            func(s *lab.Setup) { s.Policy.LockTTLMS = tooLong.Milliseconds() },
		"watchdog-holder-killed":         func(s *lab.Setup) { s.Watchdog = tooLong },
		"mysql-row-expiry-holder-killed": func(s *lab.Setup) { s.Watchdog = tooLong },
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			breaksWith(t, id, lengthen)
		})
	}
}

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
			if stuck := judge.Judge(due).Anomalies[finding.StuckKeys]; stuck != tt.stuck {
				t.Errorf("%d stuck keys, want %d", stuck, tt.stuck)
			}
		})
	}
}

// breaksWith runs an experiment that holds with a changed setup: it must find a stuck key.
func breaksWith(t *testing.T, id string, change func(*lab.Setup)) {
	t.Helper()
	r := playedWith(t, id, change)
	if r.Observed != finding.Breaks || r.Anomalies[finding.StuckKeys] != 1 || r.Witness == nil || r.Witness.Kind != finding.StuckKeys {
		t.Errorf("observed %s: %v; witness %v", r.Observed, r.Anomalies, r.Witness)
	}
}

// playedWith runs an experiment with a changed setup.
func playedWith(t *testing.T, id string, change func(*lab.Setup)) finding.Result {
	t.Helper()
	set, bench := laboratory(t)
	e, err := set.Find(id)
	if err != nil {
		t.Fatal(err)
	}
	change(&e.Setup)
	r := bench.Run(t.Context(), e)
	if r.Failed == "" {
		check(t, r)
	}
	show(t, r)
	return r
}
