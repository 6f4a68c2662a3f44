package experiments

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge/judgetest"
	"seckill/internal/lab/report"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// laboratory returns the experiments, and a [lab.Lab] that runs them.
func laboratory(t *testing.T) (lab.Set, *lab.Lab) {
	t.Helper()
	testkit.Servers(t)
	set, err := All()
	fail.NowIf(t, err)
	bench, err := lab.New(environment, set)
	fail.NowIf(t, err)
	return set, bench
}

// weak are experiments of each family of locks, and of what is sold without one, that visibly break. VALUES are in slow
// motion where a lease and a buyer's work meet.
const weak = `
no-lock
local-two-processes
no-unique-index
setnx-holder-killed
setnx-expire-killed-between
setnx-expire-cut-between
naive-wrong-release               lease=1200ms work=900ms pause=750ms
thread-id-two-processes           lease=1200ms work=700ms pause=800ms
uuid-between-compare-and-delete   lease=1200ms work=600ms pause=900ms
uuid-wrong-key
lua-lease-too-short
nested-without-reentry            wait=100ms
panic-skips-release               work=300ms
release-before-commit
unfair-order
readers-writer-no-lock
paused-holder                     lease=2s
primary-dies-before-replicating
multi-one-node-down
red-node-restarts-empty
mysql-row-holder-killed
get-lock-connection-lost          work=400ms
zk-session-expired
zk-herd                           buyers=4
cancel-state-not-asked            buyers=1
event-handled-twice               buyers=1
late-money-stock-not-asked        buyers=1
compensation-before-commit        stock=1
room-first-come                   buyers=600
room-pass-for-anyone
version-rush
count-then-insert
count-for-each-line
stock-before-user
user-in-database
message-apart
locked-is-sold
stranded-stock
one-for-all
stock-written
paused-in-redis`

// sound are experiments that hold on a machine of any speed: what they promise depends on no lease.
const sound = `
conditional-stock-no-lock
version-cas-no-lock
local-one-process
unique-index-no-lock
lua-atomic-release
nested-reentrant
commit-before-release
paused-holder-fenced
zk-session-expired-fenced
cancel-conditional
event-recorded
late-money-conditional
compensation-after-commit
conditional-rush
take-then-insert
take-for-each-line
user-and-stock-at-once
message-in-script
locked-is-waited-for
all-counters
each-its-own
stock-added
paused-in-database`

// weakTries is how often an experiment may be played until it breaks: that it can is what is shown here, and make soak
// counts how often it does.
const weakTries = 5

// What is called weak visibly breaks, with a witness of the anomaly that it is about.
func TestWeakBreaks(t *testing.T) {
	forEach(t, weak, func(t *testing.T, bench *lab.Lab, e *lab.Experiment) {
		for try := 1; ; try++ {
			r := bench.Run(t.Context(), e)
			if r.Observed == finding.Breaks && r.Anomalies[e.About[0]] > 0 {
				if r.Witness == nil || r.Witness.Kind != e.About[0] {
					t.Errorf("no witness of %s", e.About[0])
				}
				show(t, r)
				return
			}
			if try == weakTries {
				check(t, r)
				t.Fatalf("observed %s %d times, want that it breaks: %v", r.Observed, try, r.Anomalies)
			}
			skip(t, r)
		}
	})
}

// What is called sound holds.
func TestSoundHolds(t *testing.T) {
	forEach(t, sound, func(t *testing.T, bench *lab.Lab, e *lab.Experiment) {
		r := bench.Run(t.Context(), e)
		for try := 1; r.Failed != "" && try < weakTries; try++ { // no verdict: a step took longer than an experiment waits
			r = bench.Run(t.Context(), e)
		}
		check(t, r)
		if r.Observed != finding.Holds {
			t.Errorf("it %s: %v", r.Observed, r.Anomalies)
		}
		show(t, r)
	})
}

// A sale that refuses nobody says nothing about a sale that refuses many.
func TestVersionsWithoutRefusalsAreNoVerdict(t *testing.T) {
	r := playedWith(t, "version-cas-no-lock", func(s *lab.Setup) {
		s.Policy.Lock, s.Policy.Stock = "reentrant", voucher.StockConditional
	})
	if !strings.Contains(r.Failed, "did not meet") || r.Observed != "" {
		t.Errorf("observed %q, failed %q", r.Observed, r.Failed)
	}
}

// forEach plays the experiments of a list, an id and NAME=value on each line. The quiet ones are played in parallel, as
// [lab.Lab.RunAll] does.
func forEach(t *testing.T, list string, play func(*testing.T, *lab.Lab, *lab.Experiment)) {
	t.Helper()
	set, bench := laboratory(t)
	for line := range strings.SplitSeq(strings.TrimSpace(list), "\n") {
		id, values, _ := strings.Cut(line, " ")
		t.Run(id, func(t *testing.T) {
			e := changed(t, set, id, values)
			parallelIfQuiet(t, e)
			play(t, bench, e)
		})
	}
}

// changed returns an experiment with other values, each NAME=value.
func changed(t *testing.T, set lab.Set, id, values string) *lab.Experiment {
	t.Helper()
	e, err := set.Find(id)
	fail.NowIf(t, err)
	given := map[string]string{}
	for pair := range strings.FieldsSeq(values) {
		name, value, _ := strings.Cut(pair, "=")
		given[name] = value
	}
	if e, err = e.With(given); err != nil {
		t.Fatal(err)
	}
	return e
}

// playedWith runs an experiment with a changed setup.
func playedWith(t *testing.T, id string, change func(*lab.Setup)) finding.Result {
	t.Helper()
	set, bench := laboratory(t)
	e, err := set.Find(id)
	fail.NowIf(t, err)
	change(&e.Setup)
	r := bench.Run(t.Context(), e)
	if r.Failed == "" {
		check(t, r)
	}
	show(t, r)
	return r
}

func parallelIfQuiet(t *testing.T, e *lab.Experiment) {
	t.Helper()
	if e.Quiet {
		t.Parallel()
	}
}

// check ends the test if there is no verdict.
func check(t *testing.T, r finding.Result) {
	t.Helper()
	skip(t, r)
	if r.Failed != "" {
		t.Fatal(r.Failed)
	}
	for _, m := range r.Measures { // a time that was never taken gives a difference of decades
		if m.Unit.String() == "ms" && (m.Value < -120_000 || m.Value > 120_000) {
			t.Errorf("%s: %v ms, longer than an experiment may take", m.Name, m.Value)
		}
	}
}

// skip skips the test if a server is missing, unless none may be.
func skip(t *testing.T, r finding.Result) {
	t.Helper()
	switch {
	case r.Skipped != "" && os.Getenv("REQUIRE_INFRA") == "1":
		t.Fatal(r.Skipped)
	case r.Skipped != "":
		t.Skip(r.Skipped)
	}
}

// show logs what lab run prints. What is told has to be there in Chinese as well.
func show(t *testing.T, r finding.Result) {
	t.Helper()
	t.Logf("%s: %s after %d ms, %d orders, %v; %v", r.ID, r.Observed, r.DurationMS, r.Orders, r.Anomalies, r.Measures)
	if r.Witness == nil {
		return
	}
	var lanes bytes.Buffer
	fail.If(t, report.Lanes(&lanes, *r.Witness, 120, false, i18n.English))
	t.Logf("\n%s", lanes.String())
	for _, w := range append([]finding.Witness{*r.Witness}, r.More...) {
		judgetest.CheckTexts(t, w)
	}
}
