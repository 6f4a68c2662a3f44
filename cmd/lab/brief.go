package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/report"
)

// screen is the number of lines that an experiment is told in: those of a usual window, without the line of its
// progress.
const screen = 39

// printBrief tells an experiment on one screen: its question, the verdict, the picture, why, and what to run next. Of
// the explanation it prints the sentences that have room.
func printBrief(w io.Writer, req runRequest, e, played *lab.Experiment, r *finding.Result) error {
	var b bytes.Buffer
	columns, l := width(w), req.lang
	say := func(paragraph i18n.Text) { fmt.Fprintf(&b, "%s\n", wrap(paragraph.In(l), columns)) }
	if r.Prediction == "" { // the quiz has put the question
		say(i18n.F("%s: %s", e.ID, e.Says(lab.Question)))
	} else {
		say(score(r))
	}
	switch {
	case len(r.Changed) > 0:
		say(i18n.F("This run is with %s.", changes(r)))
	case r.SetupOf != "":
		say(i18n.F("This run is with the setup of %s: %s", r.SetupOf, played.Says(lab.Title)))
	}
	fmt.Fprintln(&b)
	say(inASentence(r))
	if r.Witness != nil {
		if err := report.Brief(&b, *r.Witness, columns, colour(w), l); err != nil {
			return err
		}
	}
	last := next(req, e, r, columns)
	if asWritten(r) {
		used := strings.Count(b.String(), "\n") + strings.Count(last, "\n") + 3 // two empty lines, and how many came out as expected
		if last != "" && screen-used < 3 {
			first, _, _ := strings.Cut(last, "\n") // what turns the outcome, and no more
			last, used = first+"\n", used-strings.Count(last, "\n")+1
		}
		if why := fitting(i18n.F("Why: %s", e.Says(lab.Why)).In(l), columns, screen-used); why != "" {
			fmt.Fprintf(&b, "\n%s\n", why)
		}
	}
	fmt.Fprintln(&b)
	b.WriteString(last)
	_, err := w.Write(b.Bytes())
	return err
}

// inASentence is the verdict, with the anomalies that decided.
func inASentence(r *finding.Result) i18n.Text {
	if !asWritten(r) {
		return verdict(r)
	}
	var seen, absent []i18n.Text
	for _, info := range finding.Kinds() {
		if n := r.Anomalies[info.Kind]; slices.Contains(r.About, info.Kind) && n > 0 {
			seen = append(seen, info.Counted(n))
		} else if slices.Contains(r.About, info.Kind) {
			absent = append(absent, i18n.Key(info.Title))
		}
	}
	if r.Observed == finding.Breaks {
		return i18n.F("It breaks, as expected: %s.", i18n.List(seen...))
	}
	return i18n.F("It holds, as expected. Not seen: %s.", i18n.List(absent...))
}

// next says what to run next: what turns the outcome, what can be changed, and all that was seen. After several
// experiments nobody is told so of each.
func next(req runRequest, e *lab.Experiment, r *finding.Result, columns int) string {
	if len(req.chosen) > 1 || r.Skipped != "" {
		return ""
	}
	turns := i18n.F("what helps")
	if e.Expect == finding.Holds {
		turns = i18n.F("how it breaks without that")
	}
	lines := [][2]string{
		{"run " + e.Partner, turns.In(req.lang)},
		{"show " + e.ID, i18n.F("what is done, and what you can change").In(req.lang)},
		{"run -v " + strings.TrimPrefix(e.Command(), "go run ./cmd/lab run "), i18n.F("all that was seen, with every number").In(req.lang)},
	}
	longest := 0
	for _, line := range lines {
		longest = max(longest, len(line[0]))
	}
	var b strings.Builder
	for _, line := range lines {
		command := "  go run ./cmd/lab " + line[0]
		if room := columns - len(command) - (longest - len(line[0])) - 2; i18n.Columns(line[1]) <= room {
			command += strings.Repeat(" ", longest-len(line[0])+2) + line[1]
		}
		b.WriteString(command + "\n")
	}
	return b.String()
}

// fitting is as much of a text as has room in so many lines: whole sentences of it, at least the first.
func fitting(text string, columns, lines int) string {
	for {
		if whole := wrap(text, columns); strings.Count(whole, "\n") < lines {
			return whole
		}
		end := max(strings.LastIndex(strings.TrimRight(text, ". "), ". ")+1, strings.LastIndex(strings.TrimSuffix(text, "。"), "。")+len("。"))
		if end < len("。")+1 || end >= len(text) {
			return wrap(text, columns)
		}
		text = text[:end]
	}
}
