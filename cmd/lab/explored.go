package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"seckill/internal/lab/explore"
	"seckill/internal/lab/i18n"
)

func printExplored(ctx context.Context, w io.Writer, r explore.Result) error {
	printFound(w, r)
	if len(r.Found) == 0 {
		return nil
	}
	p, err := explore.Play(ctx, explore.Config{}, r.Found[0].Schedule)
	if err != nil {
		return err
	}
	return printPlayed(w, p)
}

// printFound says what a search covers, and what it has found.
func printFound(w io.Writer, r explore.Result) {
	say := func(text string) { fmt.Fprintln(w, wrap(text, width(w))) }
	say(fmt.Sprintf("%s, %s, with bad luck (adversities) of at most %s.", r.Lock, counted(r.Buyers, "buyer", "buyers"), r.Budget))
	say(i18n.Sentence(i18n.Plain(coverage(r))).String() + fmt.Sprintf(", %.0f a second.", r.PerSecond()))
	if r.Diverged > 0 {
		say(fmt.Sprintf("In %s the lock did not behave as before: what is covered is less than that.", counted(r.Diverged, "execution", "executions")))
	}
	if r.Sampled != nil {
		say(sampled(*r.Sampled))
	}
	if len(r.Found) == 0 {
		say("No schedule of these breaks it.")
		return
	}
	printExamples(w, r, "The shortest schedule of each anomaly:", false)
	printExamples(w, r, "Found by sampling, and shrunk; a shorter one may exist:", true)
	fmt.Fprintln(w)
}

// sampled says what was sampled, and with what chance a failure was hit.
func sampled(a explore.Sampled) string {
	return fmt.Sprintf("Beyond that, %s sampled (seed %d), with adversities at random steps of the first %d. The chance to hit a failure that takes at most %s, besides keys that end, was at least %.2g%%.",
		counted(a.Executions, "schedule was", "schedules were"), a.Seed, a.Steps, counted(a.Adversities, "adversity", "adversities"), 100*a.Chance)
}

// printExamples lists the counterexamples of the search, or those of the sample.
func printExamples(w io.Writer, r explore.Result, heading string, sampled bool) {
	for _, f := range r.Found {
		if f.Sampled != sampled {
			continue
		}
		if heading != "" {
			fmt.Fprintf(w, "\n%s\n", heading)
			heading = ""
		}
		fmt.Fprintf(w, "  %-16s %2d steps, %-26s %s\n", explore.Title(f.Kind), len(f.Schedule.Steps), f.Spent, f.Schedule)
	}
}

// coverage says what a search covers.
func coverage(r explore.Result) string {
	what := fmt.Sprintf("%s executions, %s states", thousands(r.Executions), thousands(r.States))
	switch {
	case r.Exhausted:
		return "every schedule within the budget was tried: " + what
	case r.Complete < 0:
		return "not even the schedules without an adversity were all tried: " + what
	}
	return fmt.Sprintf("every schedule with at most %s was tried: %s", counted(r.Complete, "adversity", "adversities"), what)
}

// printRow prints one line of the table of all locks.
func printRow(w io.Writer, r explore.Result, most int) {
	var found []string
	for _, f := range r.Found {
		text := fmt.Sprintf("%s %d (%d)", explore.Title(f.Kind), len(f.Schedule.Steps), f.Spent.Total())
		if f.Sampled {
			text += " sampled"
		}
		found = append(found, text)
	}
	covered := fmt.Sprintf("up to %d", r.Complete)
	switch {
	case r.Exhausted || r.Complete >= most:
		covered = "all"
	case r.Complete < 0:
		covered = "nothing"
	}
	fmt.Fprintf(w, "%-15s %-9s %10s %8.0f  %s\n", r.Lock, covered, thousands(r.Executions), r.PerSecond(), cmp.Or(strings.Join(found, ", "), "none"))
}
