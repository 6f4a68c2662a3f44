package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"seckill/internal/lab"
	"seckill/internal/lab/experiments"
	"seckill/internal/lab/finding"
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
	s, err := open(ctx, all, req.options, len(req.chosen), stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	results, stopped := s.play(ctx, req, asks, func(r finding.Result) {
		if req.json {
			err = errors.Join(err, json.NewEncoder(stdout).Encode(r))
		} else if asks != nil {
			err = errors.Join(err, printOne(stdout, req.chosen, &r))
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
			if err := printOne(w, req.chosen, &results[i]); err != nil {
				return err
			}
		}
	}
	if err := printTable(w, results); err != nil {
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
	fmt.Fprintf(w, "\n%s", summary(expected, len(results)-skipped-changed, changed))
	if skipped > 0 {
		fmt.Fprintf(w, ", %d skipped", skipped)
	}
	_, err := fmt.Fprintf(w, ", in %.0f s\n", took.Seconds())
	if req.predicts() {
		fmt.Fprintln(w, tally(results))
	}
	for i := range results {
		if r := &results[i]; r.Skipped != "" || r.Failed != "" {
			reason, more, _ := strings.Cut(r.Skipped+r.Failed, "\n")
			if more != "" {
				reason += " (the rest of it: --json)"
			}
			fmt.Fprintf(w, "  %s: %s\n", r.ID, reason)
		}
	}
	return err
}

// printTable prints a line for each result. A terminal that is too narrow for that gets one
// with what fits, and the anomalies below it.
func printTable(w io.Writer, results []finding.Result) error {
	var full, short strings.Builder
	table := tabwriter.NewWriter(&full, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "EXPERIMENT\tLOCK\tEXPECTED\tOBSERVED\t\tANOMALIES\tORDERS\tTIME")
	for i := range results {
		r := &results[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%.1f s\n",
			r.ID, r.Lock, r.Expect, observed(r), tick(r), anomalies(r), r.Orders, float64(r.DurationMS)/1000)
		fmt.Fprintf(&short, "%s (%s): expected %s, observed %s, %s\n  anomalies: %s\n  orders: %d; %.1f s\n",
			r.ID, r.Lock, r.Expect, observed(r), tick(r), hang(anomalies(r), len("  anomalies: "), width(w)), r.Orders, float64(r.DurationMS)/1000)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	text := full.String()
	for line := range strings.Lines(text) {
		if interactive(w) && utf8.RuneCountInString(line) > width(w)+1 {
			text = short.String()
		}
	}
	_, err := io.WriteString(w, text)
	return err
}

// summary counts the runs.
func summary(expected, of, changed int) string {
	switch {
	case changed == 0:
		return fmt.Sprintf("%d of %d as expected", expected, of)
	case of == 0:
		return fmt.Sprintf("%d with changed numbers", changed)
	}
	return fmt.Sprintf("%d of %d as expected, %d with changed numbers", expected, of, changed)
}

func observed(r *finding.Result) string {
	switch {
	case r.Skipped != "":
		return "skipped"
	case r.Failed != "":
		return "no verdict"
	}
	return string(r.Observed)
}

func tick(r *finding.Result) string {
	switch {
	case r.Skipped != "":
		return "-"
	case len(r.Changed) > 0 && r.Failed == "":
		return map[bool]string{true: "turned", false: "not turned"}[r.Turned]
	case r.AsExpected:
		return "ok"
	}
	return "NOT AS EXPECTED"
}

// anomalies names the anomalies that were found, the gravest first.
func anomalies(r *finding.Result) string {
	var found []string
	for _, info := range finding.Kinds() {
		if n := r.Anomalies[info.Kind]; n > 0 {
			found = append(found, fmt.Sprintf("%s %d", info.Title, n))
		}
	}
	if len(found) == 0 {
		return "none"
	}
	return strings.Join(found, ", ")
}
