package main

import (
	"strings"
	"testing"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/testkit/fail"
)

// The verdict is told from the run; the written explanation is for the experiment's own setup and its expected outcome.
func TestVerdictIsToldFromTheRun(t *testing.T) {
	e, err := everyExperiment(t).Find("no-lock")
	fail.NowIf(t, err)
	seen, none := map[finding.Kind]int{finding.Oversold: 3}, map[finding.Kind]int{}
	for want, r := range map[string]finding.Result{
		"It breaks, as expected. Seen: oversold 3. Not seen: lost updates.":                                    {Expect: finding.Breaks, Observed: finding.Breaks, AsExpected: true, Anomalies: seen},
		"with that of reentrant-lock it holds; with its own it breaks. Expected, and not seen: oversold, lost": {Expect: finding.Breaks, Observed: finding.Holds, SetupOf: "reentrant-lock", Anomalies: none},
		"Not as expected: it was to come to \"breaks\", and it holds. Expected, and not seen: oversold":        {Expect: finding.Breaks, Observed: finding.Holds, Anomalies: none},
		"The change did not turn the outcome":                                                                  {Expect: finding.Breaks, Observed: finding.Breaks, AsExpected: true, Changed: []finding.Change{{Name: "stock"}}, Anomalies: seen},
		"The change turned the outcome":                                                                        {Expect: finding.Breaks, Observed: finding.Holds, Turned: true, Changed: []finding.Change{{Name: "stock"}}, Anomalies: none},
		"There is no verdict.":                                                                                 {Expect: finding.Breaks, Failed: "no server"},
		"it was to come to \"breaks\", and it breaks (oversold 3). Seen: over":                                 {Expect: finding.Breaks, Observed: finding.Breaks, Anomalies: seen}, // in another way
	} {
		r.About = e.About
		if got := verdict(&r).String(); !strings.Contains(got, want) {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
		var out strings.Builder
		r.ID = e.ID
		fail.NowIf(t, printStory(&out, e, e, &r, i18n.English))
		if strings.Contains(out.String(), "Why: ") != asWritten(&r) || strings.Contains(out.String(), e.Title) != asWritten(&r) {
			t.Errorf("%+v: it says\n%s", r, out.String())
		}
	}
}

func TestShow(t *testing.T) {
	e, err := everyExperiment(t).Find("paused-holder")
	fail.NowIf(t, err)
	code, stdout, stderr := call(t, "show", e.ID)
	text := strings.Join(strings.Fields(stdout), " ")
	for _, want := range []string{e.Question, e.Arrangement, "--lease 800ms", "500ms to 5s", "--pause", "stale writes", e.Partner} {
		if code != exitOK || !strings.Contains(text, want) {
			t.Errorf("exit code %d, no %q in\n%s%s", code, want, stdout, stderr)
		}
	}
	if strings.Contains(text, e.Title) || strings.Contains(text, e.Hypothesis) || strings.Contains(text, e.Why) {
		t.Errorf("it gives the outcome away:\n%s", stdout)
	}
	_, stdout, _ = call(t, "show", e.ID, "--answers")
	if text := strings.Join(strings.Fields(stdout), " "); !strings.Contains(text, e.Why) || !strings.Contains(text, "it breaks") {
		t.Errorf("the answers are not there:\n%s", stdout)
	}
}
