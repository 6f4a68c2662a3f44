package experiments

import (
	"testing"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
)

func TestDeaths(t *testing.T) { prove(t, deaths()) }

// A dead holder's lock that lasts longer than the hypothesis says does not hold, though
// the next one gets in.
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

// breaksWith plays an experiment that holds with its setup changed: it must see a key
// that is stuck.
func breaksWith(t *testing.T, id string, change func(*lab.Setup)) {
	t.Helper()
	r := playedWith(t, id, change)
	if r.Observed != finding.Breaks || r.Anomalies[finding.StuckKeys] != 1 || r.Witness == nil || r.Witness.Kind != finding.StuckKeys {
		t.Errorf("observed %s: %v; witness %v", r.Observed, r.Anomalies, r.Witness)
	}
}

// playedWith plays an experiment with its setup changed.
func playedWith(t *testing.T, id string, change func(*lab.Setup)) finding.Result {
	t.Helper()
	e, err := All().Find(id)
	if err != nil {
		t.Fatal(err)
	}
	bench, err := lab.New(house, All())
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
