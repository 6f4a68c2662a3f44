package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/report"
	"seckill/internal/lab/server"
	"seckill/internal/testkit/fail"
)

// english are words that are left in English. Names of locks and files, values and statements stay as they are.
var english = regexp.MustCompile(`[a-z]{2,}(?:,? [a-z]{2,}){2,}|\b(?:the|and|with|breaks|holds|expected|observed|skipped)\b`)

// ids are names such as wait-and-be-woken.
var ids = regexp.MustCompile(`\w+(?:-\w+)+|"breaks:oversold"`)

// outcomes are results of an experiment of every sort.
func outcomes(e *lab.Experiment) []finding.Result {
	seen := map[finding.Kind]int{finding.Oversold: 3, finding.Overlaps: 1}
	yes := true
	all := []finding.Result{
		{Observed: e.Expect, AsExpected: true, Anomalies: seen, Prediction: "breaks:oversold", PredictionRight: &yes},
		{Observed: e.Expect.Opposite(), Anomalies: seen},
		{Observed: e.Expect.Opposite(), SetupOf: e.Partner, Anomalies: seen},
		{Observed: e.Expect.Opposite(), Turned: true, Changed: []finding.Change{{Name: "lease", From: "1s", To: "2s"}}},
		{Observed: e.Expect, Changed: []finding.Change{{Name: "lease", From: "1s", To: "2s"}}},
		{Skipped: "x", SkippedFor: i18n.F("needs %s, and real servers are to be left alone", "mariadbd")},
	}
	for i := range all {
		all[i].ID, all[i].Title, all[i].Group, all[i].Lock, all[i].Expect, all[i].About = e.ID, e.Title, e.Group, e.Lock(), e.Expect, e.About
	}
	return all
}

// What lab run --lang zh prints and writes of any experiment is in Chinese.
func TestRunInChinese(t *testing.T) {
	set := everyExperiment(t)
	var ran []server.Ran
	for i := range set {
		e := &set[i]
		sorts := outcomes(e)
		if i%8 > 0 {
			sorts = sorts[:1] // the texts are its own, the words around them are those of every experiment
		}
		for _, r := range sorts {
			req := runRequest{all: set, chosen: []*lab.Experiment{e}, lang: i18n.Chinese, lanes: true, quiz: r.Prediction != ""}
			var out strings.Builder
			fail.NowIf(t, printOne(&out, req, &r))
			fail.NowIf(t, print(&out, []finding.Result{r}, req, time.Minute))
			printed, _, _ := strings.Cut(out.String(), i18n.F("All servers at once:").In(i18n.Chinese))
			fail.Unequal(t, english.FindString(ids.ReplaceAllString(printed, "")), "", "%s: left in English", e.ID)
			ran = append(ran, server.Ran{Experiment: e, Result: r})
		}
	}
	page, err := newReport(set, distinct(ran), time.Now(), 1, "", i18n.Chinese)
	fail.NowIf(t, err)
	var out strings.Builder
	fail.NowIf(t, report.HTML(&out, page))
	text := regexp.MustCompile(`(?s)<script type="module">.*?</script>|<(style|pre|code|details)\b.*?</(style|pre|code|details)>|“[^”]*”|<[^>]*>`).ReplaceAllString(out.String(), "\n")
	for _, left := range english.FindAllString(ids.ReplaceAllString(text, ""), 5) {
		t.Errorf("the report has left in English: %q", left)
	}
}

// The columns of the table are below each other: a Chinese character takes two.
func TestAligned(t *testing.T) {
	lines := strings.Split(aligned([][]string{{"实验", "b", "c"}, {"ab", "二三", "c"}, {"a", "", "c"}}), "\n")
	if want := []string{"实验  b     c", "ab    二三  c", "a           c", ""}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}

// No line is wider than the terminal, and no punctuation begins one.
func TestWrapInChinese(t *testing.T) {
	const text = "租期 400 毫秒，工作 300 毫秒。每二十个买家中有一个要用 550 毫秒（这样的买家第一个到），后面还有五个在等。"
	for columns := 10; columns < 60; columns++ {
		wrapped := wrap(text, columns)
		for line := range strings.SplitSeq(wrapped, "\n") {
			if i18n.Columns(line) > columns || strings.IndexAny(line, "，。）") == 0 {
				t.Errorf("in %d columns: %q", columns, line)
			}
		}
		fail.Unequal(t, strings.ReplaceAll(strings.ReplaceAll(wrapped, "\n", ""), " ", ""), strings.ReplaceAll(text, " ", ""), "in %d columns", columns)
	}
}
