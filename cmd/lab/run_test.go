package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/experiments"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/report"
	"seckill/internal/lab/testbed"
	"seckill/internal/testkit/fail"
)

// The documents say how many experiments a machine with Go alone plays.
func TestDocumentsCountWhatGoAlonePlays(t *testing.T) {
	all := everyExperiment(t)
	alone := 0
	for _, e := range all {
		if !slices.ContainsFunc(e.Needs, func(s testbed.Server) bool { return s.Substitute() == "" }) {
			alone++
		}
	}
	if alone < 40 {
		t.Errorf("%d experiments play with Go alone, want 40 or more", alone)
	}
	for _, file := range []string{"README.md", "docs/workshop.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", file))
		fail.NowIf(t, err)
		if want := fmt.Sprintf("%d of the %d", alone, len(all)); !strings.Contains(string(text), want) {
			t.Errorf("%s does not say %q", file, want)
		}
	}
}

func everyExperiment(t *testing.T) lab.Set {
	t.Helper()
	all, err := experiments.All()
	fail.NowIf(t, err)
	return all
}

func TestList(t *testing.T) {
	all := everyExperiment(t)
	code, stdout, _ := call(t, "list")
	_, asJSON, _ := call(t, "list", "--json")
	if code != exitOK || strings.Count(asJSON, "\n") != len(all) {
		t.Errorf("exit code %d, %d objects for %d experiments", code, strings.Count(asJSON, "\n"), len(all))
	}
	for _, e := range all {
		if !strings.Contains(stdout, "\n  "+e.ID+" ") || !strings.Contains(asJSON, `"id":"`+e.ID+`"`) {
			t.Errorf("%s is not in the list", e.ID)
		}
		if strings.Contains(stdout, e.Title+"\n") || strings.Contains(stdout, e.Hypothesis) {
			t.Errorf("the list gives the outcome of %s away", e.ID)
		}
	}
	if want := `{"name":"lease","value":"800ms","bounds":"500ms to 5s"`; !strings.Contains(asJSON, want) {
		t.Errorf("the JSON does not say what can be changed, %s", want)
	}
	if _, answers, _ := call(t, "list", "--answers"); !strings.Contains(answers, "\nno-lock  ") || !strings.Contains(answers, all[0].Title) {
		t.Errorf("the answers do not name them:\n%s", answers)
	}
}

func TestWrongRun(t *testing.T) {
	for want, args := range map[string][]string{
		"which experiment":                          {"run"},
		"perhaps naive-wrong-release":               {"run", "naive-wrong-relaese"},
		"see lab list":                              {"run", "xyzzy"},
		"--instances is 0":                          {"run", "all", "--instances", "0"},
		"--instances is 99":                         {"run", "--instances", "99", "all"},
		"--duration is 1ns":                         {"run", "all", "--duration", "1ns"},
		"--seed is -1":                              {"run", "all", "--seed", "-1"},
		"standard input is none":                    {"run", "no-lock", "--quiz"},
		"one of oversold, duplicates, lost updates": {"run", "no-lock", "--predict", "breaks:vanished"},
		"holds, breaks, or breaks:KIND":             {"run", "no-lock", "--predict", "perhaps"},
		"paused-holder has no parameter --buyers; it has --lock": {"run", "paused-holder", "--buyers", "3"},
		`no-lock cannot have --stock "0"; it can be 1 to`:        {"run", "no-lock", "--stock", "0"},
		"nothing of it can be changed":                           {"run", "red-clock-jump", "--lease", "1s"},
		"use one of them":                                        {"run", "no-lock", "--swap", "--stock", "5"},
		"which experiment? its id":                               {"show"},
		"perhaps no-unique-index":                                {"show", "no-unique-indx"},
		"-nonsense":                                              {"run", "all", "--nonsense"},
		"--report: ":                                             {"run", "all", "--report", "/dev/null/report"},
		"--report: open /proc/self":                              {"run", "all", "--report", "/proc/self"},
		"--api: stat /nonexistent":                               {"run", "all", "--api", "/nonexistent"},
		"--api: /tmp is not a file":                              {"run", "all", "--api", "/tmp"},
		`unexpected argument "all"`:                              {"list", "all"},
		`unexpected argument "nought"`:                           {"catalogue", "nought"},
	} {
		code, stdout, stderr := call(t, args...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q; want 2 and %q", args, code, stdout, stderr, want)
		}
	}
}

// The exit code says whether all came out as expected. Nothing is expected of changed numbers, and of what was skipped;
// but where nothing ran, nothing was shown.
func TestExitCode(t *testing.T) {
	right, wrong := finding.Result{ID: "right", AsExpected: true}, finding.Result{ID: "wrong"}
	skipped, failed := finding.Result{ID: "skipped", Skipped: "no server"}, finding.Result{ID: "failed", Failed: "no verdict", Changed: []finding.Change{{}}}
	changed := finding.Result{ID: "changed", Changed: []finding.Change{{}}}
	for want, results := range map[string][]finding.Result{
		"": {right, changed, skipped}, "wrong, failed": {right, wrong, failed}, "every experiment was skipped": {skipped},
	} {
		err := judgement(runRequest{}, results, nil)
		if (err == nil) != (want == "") || err != nil && (!errors.Is(err, errUnexpected) || !strings.HasSuffix(err.Error(), ": "+want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	fail.Unless(t, judgement(runRequest{}, []finding.Result{right}, context.Canceled), context.Canceled, "stopped")
}

// The reason for a missing verdict is printed even if the output is JSON.
func TestProgressSaysWhyThereIsNoVerdict(t *testing.T) {
	var out strings.Builder
	p := &progress{w: &out, total: 12}
	p.done(finding.Result{ID: "no-lock", Observed: finding.Breaks, AsExpected: true})
	p.done(finding.Result{ID: "paused-holder", Failed: "waited 20s for this: a reader\nand a stack"})
	const want = "[ 1/12] no-lock                            breaks     ok                0.0 s\n" +
		"[ 2/12] paused-holder                      no verdict NOT AS EXPECTED   0.0 s\n" +
		"        waited 20s for this: a reader\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// The report contains the setup that was used, and says whose it is.
func TestReportOfASwap(t *testing.T) {
	all := everyExperiment(t)
	req := runRequest{all: all, chosen: []*lab.Experiment{&all[0]}, report: t.TempDir(), options: testbed.Defaults()}
	var stderr strings.Builder
	results := []finding.Result{{ID: "no-lock", Title: "swapped", Group: "g", SetupOf: "reentrant-lock", Observed: finding.Holds}}
	fail.NowIf(t, saveReport(&stderr, req, results, time.Now()))
	page, err := os.ReadFile(filepath.Join(req.report, report.File))
	fail.NowIf(t, err)
	fail.Without(t, string(page), "with the setup of reentrant-lock", "&#34;lock&#34;: &#34;reentrant&#34;")
	if want := "report: " + filepath.Join(req.report, report.File) + "\n"; stderr.String() != want {
		t.Errorf("it says %q, want %q", stderr.String(), want)
	}
}

// If no report could be written, no path is printed.
func TestReportThatCannotBeWritten(t *testing.T) {
	all := everyExperiment(t)
	req := runRequest{all: all, chosen: []*lab.Experiment{&all[0]}, report: t.TempDir(), options: testbed.Defaults()}
	fail.NowIf(t, os.MkdirAll(filepath.Join(req.report, report.File, "in the way"), 0o755))
	var stderr strings.Builder
	if err := saveReport(&stderr, req, []finding.Result{{ID: "no-lock"}}, time.Now()); err == nil || stderr.Len() > 0 {
		t.Errorf("%v, and it says %q", err, stderr.String())
	}
}
