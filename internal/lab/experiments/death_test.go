package experiments

import (
	"testing"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
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
