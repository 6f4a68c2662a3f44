package main

import (
	"strings"
	"testing"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/testkit/fail"
)

// Every experiment is told on one screen, in both languages: the question, the verdict, why, and what to run next. The
// table is for several, and for those who ask for all of it.
func TestRunIsToldOnOneScreen(t *testing.T) {
	set := everyExperiment(t)
	for i := range set {
		e := &set[i]
		r := finding.Result{
			ID: e.ID, Lock: e.Lock(), Expect: e.Expect, Observed: e.Expect, AsExpected: true, About: e.About,
			Anomalies: map[finding.Kind]int{}, Witness: picture(10),
		}
		if e.Expect == finding.Breaks {
			r.Anomalies[e.About[0]] = 3
		}
		for _, l := range i18n.Languages() {
			req := runRequest{all: set, chosen: []*lab.Experiment{e}, lang: l, lanes: true}
			var out strings.Builder
			fail.NowIf(t, printOne(&out, req, &r))
			fail.NowIf(t, print(&out, []finding.Result{r}, req, 0))
			if n := strings.Count(out.String(), "\n"); n > screen {
				t.Errorf("%s: %d lines:\n%s", e.ID, n, out.String())
			}
			text := strings.Join(strings.Fields(out.String()), "")
			for _, want := range []string{e.Says(lab.Question).In(l), i18n.F("Why: %s", "").In(l), "labrun" + e.Partner, "show" + e.ID} {
				if !strings.Contains(text, strings.Join(strings.Fields(want), "")) {
					t.Errorf("%s: no %q in\n%s", e.ID, want, out.String())
				}
			}
			if strings.Contains(text, "EXPERIMENT") {
				t.Errorf("%s: a table for one:\n%s", e.ID, out.String())
			}
		}
	}
}

// picture is one with so many marks, most of which are told in footnotes.
func picture(marks int) *finding.Witness {
	w := &finding.Witness{Kind: finding.Overlaps, Summary: i18n.Plain(strings.Repeat("Two buyers are inside. ", 9)), Lanes: []finding.Lane{
		{Name: "buyer 1 (api-1)", Role: finding.Actor, Spans: []finding.Span{{Kind: finding.Held, To: 100}}},
		{Name: "buyer 2 (api-1)", Role: finding.Actor, Spans: []finding.Span{{Kind: finding.Waits, To: 60}, {Kind: finding.Held, From: 60, To: 200}}},
		{Name: "Redis", Role: finding.LockStore, Spans: []finding.Span{{Kind: finding.Stored, To: 60, Who: "buyer 1 (api-1)"}}},
	}}
	for i := range marks {
		w.Lanes[0].Marks = append(w.Lanes[0].Marks, finding.Mark{Kind: finding.Notes, At: 90 + float64(i), Label: i18n.Plain("it looks at the stock")})
	}
	return w
}

// A text that has no room loses whole sentences at its end, and never the first.
func TestFitting(t *testing.T) {
	for _, c := range []struct {
		text  string
		lines int
		want  string
	}{
		{"One two. Three four. Five.", 2, "One two.\nThree four."},
		{"One two. Three four. Five.", 3, "One two.\nThree four.\nFive."},
		{"One two three four.", 1, "One two\nthree four."},
		{"租约到期。锁没了。", 1, "租约到期。"},
	} {
		fail.Unequal(t, fitting(c.text, 11, c.lines), c.want, "%q in %d lines", c.text, c.lines)
	}
}
