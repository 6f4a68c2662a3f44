package main

import (
	"fmt"
	"io"
	"strings"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/report"
)

// printOne prints one experiment for a reader.
func printOne(w io.Writer, chosen []*lab.Experiment, r *finding.Result) error {
	for _, e := range chosen {
		if e.ID == r.ID {
			return printStory(w, e, r)
		}
	}
	return nil
}

func printStory(w io.Writer, e *lab.Experiment, r *finding.Result) error {
	say := func(paragraph string) { fmt.Fprintf(w, "%s\n", wrap(paragraph, width(w))) }
	if r.Prediction != "" {
		say(score(r))
		fmt.Fprintln(w)
	}
	say(e.ID + ": " + heading(e, r))
	fmt.Fprintln(w)
	if len(r.Changed) == 0 {
		say("Hypothesis: " + e.Hypothesis)
	}
	say("Arrangement: " + arrangement(e, r))
	if r.Witness != nil {
		fmt.Fprintln(w)
		if err := report.Lanes(w, *r.Witness, width(w), colour(w)); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	say(explanation(e, r))
	fmt.Fprintln(w)
	for _, m := range r.Measures {
		fmt.Fprintf(w, "  %s: %s\n", m.Name, strings.TrimSpace(number(m.Value)+" "+m.Unit))
	}
	fmt.Fprintln(w)
	return nil
}

// asWritten reports whether an experiment's texts are true of a run: it had the experiment's
// own setup, and came out as expected.
func asWritten(r *finding.Result) bool {
	return len(r.Changed) == 0 && r.SetupOf == "" && r.AsExpected
}

// heading is the title, or what was changed: a title may give another outcome.
func heading(e *lab.Experiment, r *finding.Result) string {
	if len(r.Changed) > 0 {
		return "with " + changes(r)
	}
	return e.Title
}

// changes names the changed values.
func changes(r *finding.Result) string {
	var list []string
	for _, c := range r.Changed {
		list = append(list, fmt.Sprintf("%s %s instead of %s", c.Name, c.To, c.From))
	}
	return strings.Join(list, ", ")
}

// arrangement adds to the text which other setup or numbers were used, if any.
func arrangement(e *lab.Experiment, r *finding.Result) string {
	switch {
	case len(r.Changed) > 0:
		return fmt.Sprintf("(with its own numbers) %s This run was with %s.", e.Arrangement, changes(r))
	case r.SetupOf != "":
		return fmt.Sprintf("%s This run was with the setup of %s.", e.Arrangement, r.SetupOf)
	}
	return e.Arrangement
}

// explanation is why it came out as it did, as far as there is a text that is true of the run.
// Otherwise the picture tells it, and this says what the difference was.
func explanation(e *lab.Experiment, r *finding.Result) string {
	switch {
	case r.Skipped != "" || r.Failed != "":
		return "There is no verdict."
	case asWritten(r):
		return "Why: " + e.Why
	case r.Turned:
		return fmt.Sprintf("The change turned the outcome: with %s it %s; with its own numbers it %s.", changes(r), outcome(r), r.Expect)
	case len(r.Changed) > 0:
		return fmt.Sprintf("The change did not turn the outcome: with %s it %s, as it does with its own numbers.", changes(r), outcome(r))
	case r.SetupOf != "" && r.Observed != r.Expect:
		return fmt.Sprintf("The other setup turned the outcome: with that of %s it %s; with its own it %s.", r.SetupOf, outcome(r), r.Expect)
	}
	return fmt.Sprintf("Not as expected: it was to come to %q, and it %s.", r.Expect, outcome(r))
}
