package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/experiments"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

// errUnexpected means that not every result was as expected.
var errUnexpected = errors.New("not as expected")

// player plays one experiment.
type player func(context.Context, *lab.Experiment) finding.Result

func runExperiments(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	all, err := experiments.All()
	if err != nil {
		return err
	}
	req, err := parseRun(all, args)
	if err != nil {
		return err
	}
	if req.report != "" { // fail now and not after minutes
		if err := writable(req.report); err != nil {
			return usagef("--report: %v", err)
		}
	}
	var asks *quiz
	if req.quiz || req.predict != nil {
		questions := stdout
		if req.json {
			questions = stderr
		}
		if asks, err = newQuiz(req, all, os.Stdin, questions); err != nil {
			return err
		}
	}
	began := time.Now()
	s, err := open(ctx, all, req.options, len(req.chosen), req.lang, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	results, stopped := s.play(ctx, req, asks, func(r finding.Result) {
		if req.json {
			err = errors.Join(err, json.NewEncoder(stdout).Encode(r))
		} else if asks != nil {
			err = errors.Join(err, printOne(stdout, req, &r))
		}
	})
	s.progress.clear()
	if err != nil {
		return err
	}
	if !req.json && len(results) > 0 {
		err = print(stdout, results, req, time.Since(began))
	}
	if req.report != "" && len(results) > 0 {
		err = errors.Join(err, saveReport(stderr, req, all, results, began))
	}
	return errors.Join(err, judgement(req, results, stopped))
}

// play plays the experiments of a request, and tells each result.
func (s *session) play(ctx context.Context, req runRequest, asks *quiz, tell func(finding.Result)) ([]finding.Result, error) {
	run := player(s.Run)
	if req.swap {
		run = s.Swap
	}
	if asks != nil {
		return asks.play(ctx, s, req.chosen, run, tell)
	}
	return s.RunAll(ctx, req.chosen, run, func(r finding.Result) {
		s.progress.done(r)
		tell(r)
	})
}

// judgement returns the error that decides the exit code.
func judgement(req runRequest, results []finding.Result, stopped error) error {
	if stopped != nil {
		return fmt.Errorf("stopped after %d of %d experiments: %w", len(results), len(req.chosen), stopped)
	}
	var wrong []string
	ran := 0
	for _, r := range results {
		if r.Skipped != "" {
			continue
		}
		ran++
		if !r.AsExpected && (len(r.Changed) == 0 || r.Failed != "") { // nothing is expected of changed numbers
			wrong = append(wrong, r.ID)
		}
	}
	switch {
	case len(wrong) > 0:
		return fmt.Errorf("%w: %s", errUnexpected, strings.Join(wrong, ", "))
	case ran == 0:
		return fmt.Errorf("%w: every experiment was skipped", errUnexpected)
	}
	return nil
}

// print writes the table, and the pictures of a few experiments.
func print(w io.Writer, results []finding.Result, req runRequest, took time.Duration) error {
	if req.lanes && !req.predicts() { // a quiz has shown each after its run
		for i := range results {
			if err := printOne(w, req, &results[i]); err != nil {
				return err
			}
		}
	}
	if err := printTable(w, results, req.lang); err != nil {
		return err
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
	_, err := fmt.Fprintf(w, "\n%s\n", i18n.List(counted...).In(req.lang))
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

// printTable prints a line for each result. A terminal that is too narrow for that gets one
// with what fits, and the anomalies below it.
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
