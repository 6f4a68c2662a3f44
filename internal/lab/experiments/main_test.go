package experiments

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/actor"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/report"
	"seckill/internal/lab/stage"
	"seckill/internal/testkit"
)

// house is what the tests of this package share, as the experiments of one run of
// the laboratory do. It is a package variable because TestMain can hand nothing on.
var house *stage.House

func TestMain(m *testing.M) {
	actor.MainIfChild()
	testkit.Main(inHouse{m})
}

// inHouse runs tests between the opening of the house and its close.
type inHouse struct{ tests *testing.M }

// Run implements what [testkit.Main] runs.
func (h inHouse) Run() int {
	var err error
	house, err = stage.Open(context.Background(), stage.Options{Instances: 2, Duration: 3 * time.Second, Seed: 1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := h.tests.Run()
	if err := house.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// prove runs each experiment of a group as it is, and with its partner's setup: the
// verdict must be as expected, and must then turn.
func prove(t *testing.T, group lab.Set) {
	t.Helper()
	bench, err := lab.New(house, All())
	if err != nil {
		t.Fatal(err)
	}
	for i := range group {
		e := &group[i]
		t.Run(e.ID, func(t *testing.T) {
			beside(t, e)
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
		t.Run(e.ID+" with the setup of "+e.Partner, func(t *testing.T) {
			beside(t, e)
			r := bench.Swap(t.Context(), e)
			check(t, r)
			if r.AsExpected || r.Observed != e.Expect.Opposite() {
				t.Errorf("observed %s, want %s: %v", r.Observed, e.Expect.Opposite(), r.Anomalies)
			}
			show(t, r)
		})
	}
}

// beside lets quiet experiments run beside each other, as [lab.Lab.RunAll] does.
func beside(t *testing.T, e *lab.Experiment) {
	if e.Quiet {
		t.Parallel()
	}
}

// check ends the test where there is no verdict.
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
}

// show logs what a person would see.
func show(t *testing.T, r finding.Result) {
	t.Helper()
	t.Logf("%s: %s after %d ms, %d orders, %v; %v", r.ID, r.Observed, r.DurationMS, r.Orders, r.Anomalies, r.Measures)
	if r.Witness == nil {
		return
	}
	var lanes bytes.Buffer
	if err := report.Lanes(&lanes, *r.Witness, 120, false); err != nil {
		t.Error(err)
	}
	t.Logf("\n%s", lanes.String())
}

func TestExperimentsAreWellFormed(t *testing.T) {
	if err := All().Validate(); err != nil {
		t.Error(err)
	}
}
