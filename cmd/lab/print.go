package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/report"
)

// print writes the table, how many came out as expected, and what was skipped. Of a few experiments each was told after
// its run; of a single one that is enough.
func print(w io.Writer, results []finding.Result, req runRequest, took time.Duration) error {
	if len(results) > 1 || req.verbose || req.predicts() {
		if err := printTable(w, results, req.lang); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	expected, skipped, changed := 0, 0, 0
	for i := range results {
		switch r := &results[i]; {
		case r.Skipped != "":
			skipped++
		case len(r.Changed) > 0:
			changed++
		case r.AsExpected:
			expected++
		}
	}
	counted := []i18n.Text{summary(expected, len(results)-skipped-changed, changed)}
	if skipped > 0 {
		counted = append(counted, i18n.F("%d skipped", skipped))
	}
	counted = append(counted, i18n.F("in %.0f s", took.Seconds()))
	_, err := fmt.Fprintln(w, i18n.Clauses(counted...).In(req.lang))
	if req.predicts() {
		fmt.Fprintln(w, tally(results).In(req.lang))
	}
	for i := range results {
		if r := &results[i]; r.Failed != "" {
			reason, more, _ := strings.Cut(r.Failed, "\n")
			if more != "" {
				reason += i18n.F(" (the rest of it: --json)").In(req.lang)
			}
			fmt.Fprintf(w, "  %s: %s\n", r.ID, reason)
		}
	}
	printSkipped(w, results, req)
	return err
}

// printTable prints a line for each result. A terminal that is too narrow for that gets one with what fits, and the
// anomalies below it.
func printTable(w io.Writer, results []finding.Result, l i18n.Language) error {
	var short strings.Builder
	table := [][]string{{
		i18n.F("EXPERIMENT").In(l), i18n.F("LOCK").In(l), i18n.F("EXPECTED").In(l), i18n.F("OBSERVED").In(l), "",
		i18n.F("ANOMALIES").In(l), i18n.F("ORDERS").In(l), i18n.F("TIME").In(l),
	}}
	for i := range results {
		r := &results[i]
		expect, saw, took := r.Expect.Text(), observed(r), float64(r.DurationMS)/1000
		table = append(table, []string{
			r.ID, r.Lock, expect.In(l), saw.In(l), tick(r).In(l), anomalies(r).In(l), strconv.Itoa(r.Orders),
			i18n.F("%.1f s", took).In(l),
		})
		head := i18n.F("  anomalies: ").In(l)
		fmt.Fprintf(&short, "%s\n%s%s\n%s\n",
			i18n.F("%s (%s): expected %s, observed %s, %s", r.ID, r.Lock, expect, saw, tick(r)).In(l),
			head, hang(anomalies(r).In(l), i18n.Columns(head), width(w)), i18n.F("  orders: %d; %.1f s", r.Orders, took).In(l))
	}
	text := aligned(table)
	for line := range strings.Lines(text) {
		if interactive(w) && i18n.Columns(line) > width(w)+1 {
			text = short.String()
		}
	}
	_, err := io.WriteString(w, text)
	return err
}

// aligned writes a table with its columns below each other, two spaces apart.
func aligned(table [][]string) string {
	widths := make([]int, len(table[0]))
	for _, row := range table {
		for i, cell := range row {
			widths[i] = max(widths[i], i18n.Columns(cell))
		}
	}
	var b strings.Builder
	for _, row := range table {
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-i18n.Columns(cell)+2))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// summary counts the runs.
func summary(expected, of, changed int) i18n.Text {
	switch {
	case changed == 0:
		return i18n.F("%d of %d as expected", expected, of)
	case of == 0:
		return i18n.F("%d with changed numbers", changed)
	}
	return i18n.F("%d of %d as expected, %d with changed numbers", expected, of, changed)
}

func observed(r *finding.Result) i18n.Text {
	switch {
	case r.Skipped != "":
		return i18n.F("skipped")
	case r.Failed != "":
		return i18n.F("no verdict")
	}
	return r.Observed.Text()
}

func tick(r *finding.Result) i18n.Text {
	switch {
	case r.Skipped != "":
		return i18n.Plain("-")
	case len(r.Changed) > 0 && r.Failed == "" && r.Turned:
		return i18n.F("turned")
	case len(r.Changed) > 0 && r.Failed == "":
		return i18n.F("not turned")
	case r.AsExpected:
		return i18n.F("ok")
	}
	return i18n.F("NOT AS EXPECTED")
}

// anomalies names the anomalies that were found, the gravest first.
func anomalies(r *finding.Result) i18n.Text {
	var found []i18n.Text
	for _, info := range finding.Kinds() {
		if n := r.Anomalies[info.Kind]; n > 0 {
			found = append(found, info.Counted(n))
		}
	}
	if len(found) == 0 {
		return i18n.F("none")
	}
	return i18n.List(found...)
}

// printOne prints one experiment for a reader.
func printOne(w io.Writer, req runRequest, r *finding.Result) error {
	e := req.experiment(r.ID)
	played := e
	if other, err := req.all.Find(r.SetupOf); err == nil {
		played = other
	}
	if req.verbose {
		return printStory(w, e, played, r, req.lang)
	}
	return printBrief(w, req, e, played, r)
}

// printStory prints an experiment that was run with the setup of played.
func printStory(w io.Writer, e, played *lab.Experiment, r *finding.Result, l i18n.Language) error {
	say := func(paragraph i18n.Text) { fmt.Fprintf(w, "%s\n", wrap(paragraph.In(l), width(w))) }
	if r.Prediction != "" {
		say(score(r))
		fmt.Fprintln(w)
	}
	say(i18n.F("%s: %s", e.ID, heading(e, r)))
	fmt.Fprintln(w)
	if len(r.Changed) == 0 {
		say(i18n.F("Hypothesis: %s", played.Says(lab.Hypothesis)))
	}
	say(i18n.F("Arrangement: %s", arrangement(e, played, r)))
	if r.Witness != nil {
		fmt.Fprintln(w)
		if err := report.Lanes(w, *r.Witness, width(w), colour(w), l); err != nil {
			return err
		}
		fmt.Fprintln(w)
		if err := report.Steps(w, *r.Witness, width(w), l); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	say(verdict(r))
	fmt.Fprintln(w)
	if asWritten(r) {
		say(i18n.F("Why: %s", e.Says(lab.Why)))
		fmt.Fprintln(w)
	}
	for _, r := range e.Reports {
		fmt.Fprintf(w, "  %s: %s\n", i18n.F("Public report").In(l), r.URL())
	}
	for _, m := range r.Measures {
		fmt.Fprintf(w, "  %s: %s\n", m.Name.In(l), strings.TrimSpace(number(m.Value)+" "+m.Unit.In(l)))
	}
	fmt.Fprintln(w)
	return nil
}

// asWritten reports whether an experiment's texts are true of a run: it had the experiment's own setup, and came out as
// expected.
func asWritten(r *finding.Result) bool {
	return len(r.Changed) == 0 && r.SetupOf == "" && r.AsExpected
}

// heading is the title; or what was changed, or the question, where the title may give another outcome.
func heading(e *lab.Experiment, r *finding.Result) i18n.Text {
	switch {
	case len(r.Changed) > 0:
		return i18n.F("with %s", changes(r))
	case r.SetupOf != "":
		return i18n.F("with the setup of %s", r.SetupOf)
	case !r.AsExpected:
		return e.Says(lab.Question)
	}
	return e.Says(lab.Title)
}

// changes names the changed values.
func changes(r *finding.Result) i18n.Text {
	var list []i18n.Text
	for _, c := range r.Changed {
		list = append(list, i18n.F("%s %s instead of %s", c.Name, c.To, c.From))
	}
	return i18n.Clauses(list...)
}

// arrangement adds to the text which other setup or numbers were used, if any.
func arrangement(e, played *lab.Experiment, r *finding.Result) i18n.Text {
	own := e.Says(lab.Arrangement)
	switch {
	case len(r.Changed) > 0:
		return i18n.F("(with its own numbers) %s This run was with %s.", own, changes(r))
	case r.SetupOf != "":
		return i18n.F("This run was with the setup of %s: %s With its own setup: %s", r.SetupOf, played.Says(lab.Arrangement), own)
	}
	return own
}

// verdict tells from the run how it came out, and what was expected and did not happen.
func verdict(r *finding.Result) i18n.Text {
	switch {
	case r.Skipped != "" || r.Failed != "":
		return i18n.F("There is no verdict.")
	case asWritten(r):
		return i18n.Sentences(i18n.F("It %s, as expected.", r.Observed.Text()), r.Seen())
	}
	return i18n.Sentences(difference(r), r.Seen())
}

// difference says what was other than in the experiment as it is written, and whether that turned the outcome.
func difference(r *finding.Result) i18n.Text {
	expect := r.Expect.Text()
	switch {
	case r.Turned:
		return i18n.F("The change turned the outcome: with %s it %s; with its own numbers it %s.", changes(r), outcome(r), expect)
	case len(r.Changed) > 0:
		return i18n.F("The change did not turn the outcome: with %s it %s, as it does with its own numbers.", changes(r), outcome(r))
	case r.SetupOf != "" && r.Observed != r.Expect:
		return i18n.F("The other setup turned the outcome: with that of %s it %s; with its own it %s.", r.SetupOf, outcome(r), expect)
	}
	return i18n.F("Not as expected: it was to come to %q, and it %s.", expect, outcome(r))
}

// printSkipped names the experiments that were skipped, by what each lacks, and says how to get all servers at once.
func printSkipped(w io.Writer, results []finding.Result, req runRequest) {
	var reasons []string
	of, why := map[string][]string{}, map[string]i18n.Text{}
	for _, r := range results {
		if r.Skipped == "" {
			continue
		}
		if of[r.Skipped] == nil {
			reasons = append(reasons, r.Skipped)
		}
		of[r.Skipped], why[r.Skipped] = append(of[r.Skipped], r.ID), r.SkippedText()
	}
	if len(reasons) == 0 {
		return
	}
	const indent = 4
	for _, reason := range slices.Sorted(slices.Values(reasons)) {
		fmt.Fprintf(w, "  %s\n", hang(i18n.F("skipped: %s", why[reason]).In(req.lang), indent, width(w)))
		fmt.Fprintf(w, "%*s%s\n", indent, "", hang(strings.Join(of[reason], ", "), indent, width(w)))
	}
	if !req.options.Embedded {
		fmt.Fprintf(w, "\n%s\n%s", i18n.F("All servers at once:").In(req.lang), fmt.Sprintf(allServers, strings.Join(req.args, " ")))
	}
}

// allServers are lines to be copied. Nothing of a server that is installed has to run: the laboratory starts its own.
// In a container Debian's packages bring all of them.
const allServers = `  Debian, Ubuntu  make infra
  macOS           brew install redis mariadb zookeeper
  container       docker run --rm -v "$PWD:/src" -w /src golang:1.26 sh -c "apt-get update && apt-get install -y \
                    redis-server mariadb-server zookeeper default-jre-headless faketime && go run ./cmd/lab run %s"
`
