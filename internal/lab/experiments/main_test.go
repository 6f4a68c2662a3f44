package experiments

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/builtin"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge/judgetest"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/report"
	"seckill/internal/lab/tell"
	"seckill/internal/lab/testbed"
	"seckill/internal/testkit"
)

// environment is shared by the tests of this package, as it is by the experiments of one run.
// It is a package variable because TestMain cannot pass values to tests.
var environment *testbed.Environment

func TestMain(m *testing.M) {
	lockclient.MainIfChild()
	builtin.MainIfChild()
	testkit.Main(withEnvironment{m})
}

// withEnvironment opens the environment, runs the tests and closes it.
type withEnvironment struct{ tests *testing.M }

// Run implements the interface of [testkit.Main].
func (h withEnvironment) Run() int {
	var err error
	environment, err = testbed.Open(context.Background(), testbed.Options{Instances: 2, Duration: 3 * time.Second, Seed: 1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := h.tests.Run()
	if err := environment.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// laboratory returns the experiments, and a [lab.Lab] that runs them.
func laboratory(t *testing.T) (lab.Set, *lab.Lab) {
	t.Helper()
	set, err := All()
	if err != nil {
		t.Fatal(err)
	}
	bench, err := lab.New(environment, set)
	if err != nil {
		t.Fatal(err)
	}
	return set, bench
}

// TestExperiments runs each experiment with its own setup, and the first of each group also with its partner's: the
// verdict must be as expected with the first, and the opposite with the second. A partner's setup is run as an
// experiment of its own in any case; TestSoakSwapped swaps all.
func TestExperiments(t *testing.T) {
	set, bench := laboratory(t)
	swapped := map[string]bool{}
	for i := range set {
		e := &set[i]
		t.Run(e.ID, func(t *testing.T) {
			parallelIfQuiet(t, e)
			r := bench.Run(t.Context(), e)
			check(t, r)
			if !r.AsExpected {
				t.Errorf("observed %s, want %s: %v", r.Observed, e.Expect, r.Anomalies)
			}
			if e.Expect == finding.Breaks && (r.Witness == nil || r.Witness.Kind != e.About[0]) {
				t.Errorf("no witness of %s", e.About[0])
			}
			show(t, r)
		})
		if !swapped[e.Group] {
			swapped[e.Group] = true
			runSwapped(t, bench, e)
		}
	}
}

func TestSoakSwapped(t *testing.T) {
	testkit.Soak(t)
	set, bench := laboratory(t)
	for i := range set {
		runSwapped(t, bench, &set[i])
	}
}

// runSwapped runs an experiment with its partner's setup, as a subtest.
func runSwapped(t *testing.T, bench *lab.Lab, e *lab.Experiment) {
	t.Helper()
	t.Run(e.ID+" with the setup of "+e.Partner, func(t *testing.T) {
		parallelIfQuiet(t, e)
		r := bench.Swap(t.Context(), e)
		check(t, r)
		if r.AsExpected || r.Observed != e.Expect.Opposite() {
			t.Errorf("observed %s, want %s: %v", r.Observed, e.Expect.Opposite(), r.Anomalies)
		}
		show(t, r)
	})
}

// parallelIfQuiet runs quiet experiments in parallel, as [lab.Lab.RunAll] does.
func parallelIfQuiet(t *testing.T, e *lab.Experiment) {
	if e.Quiet {
		t.Parallel()
	}
}

// check ends the test if there is no verdict.
func check(t *testing.T, r finding.Result) {
	t.Helper()
	switch {
	case r.Failed != "":
		t.Fatal(r.Failed)
	case r.Skipped != "" && os.Getenv("REQUIRE_INFRA") == "1":
		t.Fatal(r.Skipped)
	case r.Skipped != "":
		t.Skip(r.Skipped)
	}
	for _, m := range r.Measures { // a time that was never taken gives a difference of decades
		if m.Unit.String() == "ms" && (m.Value < -120_000 || m.Value > 120_000) {
			t.Errorf("%s: %v ms, longer than an experiment may take", m.Name, m.Value)
		}
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
	if err := report.Lanes(&lanes, *r.Witness, 120, false, tell.English); err != nil {
		t.Error(err)
	}
	t.Logf("\n%s", lanes.String())
	for _, w := range append([]finding.Witness{*r.Witness}, r.More...) {
		judgetest.CheckTexts(t, w)
	}
}
