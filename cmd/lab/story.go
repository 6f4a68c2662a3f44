package main

import (
	"fmt"
	"io"
	"strings"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/report"
)

// printOne prints one experiment for a reader.
func printOne(w io.Writer, req runRequest, r *finding.Result) error {
	for _, e := range req.chosen {
		if e.ID == r.ID {
			played := e
			if other, err := req.all.Find(r.SetupOf); err == nil {
				played = other
			}
			return printStory(w, e, played, r, req.lang)
		}
	}
	return nil
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
	}
	fmt.Fprintln(w)
	say(verdict(r))
	fmt.Fprintln(w)
	if asWritten(r) {
		say(i18n.F("Why: %s", e.Says(lab.Why)))
		fmt.Fprintln(w)
	}
	for _, m := range r.Measures {
		fmt.Fprintf(w, "  %s: %s\n", m.Name.In(l), strings.TrimSpace(number(m.Value)+" "+m.Unit.In(l)))
	}
	fmt.Fprintln(w)
	return nil
}

// asWritten reports whether an experiment's texts are true of a run: it had the experiment's
// own setup, and came out as expected.
func asWritten(r *finding.Result) bool {
	return len(r.Changed) == 0 && r.SetupOf == "" && r.AsExpected
}

// heading is the title; or what was changed, or the question, where the title may give another
// outcome.
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
	return i18n.List(list...)
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

// difference says what was other than in the experiment as it is written, and whether that
// turned the outcome.
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
