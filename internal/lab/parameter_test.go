package lab

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/testbed"
	"seckill/internal/lock"
	"seckill/internal/testkit/fail"
)

// adjustable is an experiment with a parameter of each type.
func adjustable() Experiment {
	e := experiment("weak", "sound", finding.Breaks, finding.Oversold)
	e.Setup.Policy.Lock = "naive"
	e.Setup.Policy.Faults = []lock.Fault{{Point: lock.CriticalSection, PauseMS: 50}}
	e.Parameters = []Parameter{
		ChoiceParameter("lock", i18n.Plain("the mechanism"), []string{"none", "naive", "zk-queue"},
			func(s Setup) string { return s.Policy.Lock }, func(s *Setup, name string) { s.Policy.Lock = name }),
		DurationParameter("lease", i18n.Plain("how long it lasts"), 50*time.Millisecond, 2*time.Second,
			func(s Setup) time.Duration { return s.Policy.TTL() }, func(s *Setup, d time.Duration) { s.Policy.LockTTLMS = d.Milliseconds() },
		).Named("0s", "its own").For(func(s Setup) bool { return s.Policy.Lock != "none" }),
		DurationParameter("work", i18n.Plain("how long it takes"), time.Millisecond, time.Second,
			func(s Setup) time.Duration { return time.Duration(s.Policy.Faults[0].PauseMS) * time.Millisecond },
			func(s *Setup, d time.Duration) { s.Policy.Faults[0].PauseMS = d.Milliseconds() }),
		CountParameter("buyers", i18n.Plain("buyers"), 1, 9, func(s Setup) int { return max(s.Buyers, 3) }, func(s *Setup, n int) { s.Buyers = n }),
	}
	return e
}

func TestChangedSetup(t *testing.T) {
	e := adjustable()
	with, err := e.With(map[string]string{"lease": "1500ms", "work": "70ms", "buyers": "3", "lock": "zk-queue"})
	fail.NowIf(t, err)
	want := []finding.Change{{Name: "lock", From: "naive", To: "zk-queue"}, {Name: "lease", From: "its own", To: "1.5s"}, {Name: "work", From: "50ms", To: "70ms"}}
	if !slices.Equal(with.Changed, want) { // three buyers come anyway
		t.Errorf("changed are %+v, want %+v", with.Changed, want)
	}
	p := with.Setup.Policy
	if p.Lock != "zk-queue" || p.LockTTLMS != 1500 || p.Faults[0].PauseMS != 70 || with.Setup.Buyers != 3 {
		t.Errorf("the setup is %+v", with.Setup)
	}
	if !slices.Contains(with.Needs, testbed.ZooKeeper) {
		t.Errorf("it needs %v, and its lock is in ZooKeeper", with.Needs)
	}
	if c := with.Command(); !strings.HasSuffix(c, "run weak --lock zk-queue --lease 1.5s --work 70ms") {
		t.Errorf("its command is %q", c)
	}
	if e.Setup.Policy.Lock != "naive" || e.Setup.Policy.Faults[0].PauseMS != 50 || len(e.Changed) > 0 || len(e.Needs) > 0 {
		t.Errorf("the experiment itself was changed: %+v", e)
	}
}

// A verdict has turned if something was changed and it is the other one.
func TestTurned(t *testing.T) {
	changes := []finding.Change{{Name: "lease", From: "1s", To: "2s"}}
	for name, c := range map[string]struct {
		changed []finding.Change
		found   int
		turned  bool
	}{
		"changed, and it holds":        {changes, 0, true},
		"changed, and it still breaks": {changes, 1, false},
		"unchanged, and it holds":      {nil, 0, false},
	} {
		e := adjustable()
		tr := newTrial(&e, finding.Result{Changed: c.changed})
		tr.Found(finding.Oversold, c.found)
		if r := tr.verdict(); r.Turned != c.turned {
			t.Errorf("%s: turned %v", name, r.Turned)
		}
	}
}

// An error about a parameter names the values that are possible.
func TestParametersThatCannotBe(t *testing.T) {
	for want, values := range map[string]map[string]string{
		`weak cannot have --buyers "10"; it can be 1 to 9`:    {"buyers": "10"},
		`weak cannot have --buyers "many"`:                    {"buyers": "many"},
		`weak cannot have --lease "3s"; it can be 50ms to 2s`: {"lease": "3s"},
		`--lease "60"`: {"lease": "60"}, // of what?
		`--lock "glue"; it can be none, naive, zk-queue`:                      {"lock": "glue"},
		`weak has no parameter --pause; it has --lock (none, naive`:           {"pause": "1s"},
		`no parameter --lease; it has --lock (none, naive, zk-queue), --work`: {"lock": "none", "lease": "1s"},
	} {
		e := adjustable()
		_, err := e.With(values)
		if _, ok := errors.AsType[*ParameterError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q in it", values, err, want)
		}
	}
	e := experiment("weak", "sound", finding.Breaks, finding.Oversold)
	if _, err := e.With(map[string]string{"lease": "1s"}); err == nil || !strings.Contains(err.Error(), "nothing of it can be changed") {
		t.Errorf("without parameters: %v", err)
	}
}
