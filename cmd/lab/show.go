package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"seckill/internal/lab"
	"seckill/internal/lab/experiments"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

func showHelp(w io.Writer) {
	fmt.Fprint(w, `lab show describes an experiment: its question, what is done, what counts, and
which numbers of it can be changed, with their bounds.

usage: lab show ID [--answers]

  --answers   the expected verdict too, and why
`)
}

func show(_ context.Context, args []string, stdout, _ io.Writer) error {
	var answers bool
	flags := newFlags("show")
	flags.BoolVar(&answers, "answers", false, "")
	ids, err := parseAnywhere(flags, args)
	if err != nil {
		return err
	}
	all, err := experiments.All()
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return usagef("which experiment? its id; lab list names them")
	}
	chosen, err := all.Select(ids)
	if errors.Is(err, lab.ErrUnknownExperiment) {
		return usageError{reason: err.Error()}
	} else if err != nil {
		return err
	}
	for i, e := range chosen {
		if i > 0 {
			fmt.Fprintln(stdout)
		}
		if err := showOne(stdout, all, e, answers); err != nil {
			return err
		}
	}
	return nil
}

func showOne(w io.Writer, all lab.Set, e *lab.Experiment, answers bool) error {
	columns := min(width(w), defaultWidth)
	fmt.Fprintln(w, describe(all, e, columns, i18n.English))
	if err := showParameters(w, e, columns); err != nil {
		return err
	}
	if len(e.Needs) > 0 {
		fmt.Fprintf(w, "It needs %s.\n", strings.Join(names(e.Needs), ", "))
	}
	if answers {
		for _, paragraph := range []string{"Expected: it " + string(e.Expect) + ". " + e.Title + ".", "Hypothesis: " + e.Hypothesis, "Why: " + e.Why} {
			fmt.Fprintf(w, "\n%s\n", wrap(paragraph, columns))
		}
	}
	_, err := fmt.Fprintf(w, "\n  %s\n  %s --swap\n      with the setup of %s\n", e.Command(), e.Command(), e.Partner)
	return err
}

// showParameters prints what can be changed: the value that it has, its bounds and what it is.
func showParameters(w io.Writer, e *lab.Experiment, columns int) error {
	parameters := e.Changeable()
	if len(parameters) == 0 {
		fmt.Fprintln(w, "It has no numbers that can be changed.")
		return nil
	}
	fmt.Fprintln(w, "What can be changed for a run:")
	const indent = 6
	for _, p := range parameters {
		fmt.Fprintf(w, "  --%s %s\n%*s%s\n", p.Name, p.Value(e.Setup), indent, "", hang(p.About.String()+"; "+p.Bounds, indent, columns))
	}
	fmt.Fprintln(w)
	return nil
}

func names[T ~string](list []T) []string {
	var all []string
	for _, one := range list {
		all = append(all, string(one))
	}
	return all
}

// describe says what is done and what counts, and not how it ends.
func describe(all lab.Set, e *lab.Experiment, columns int, l i18n.Language) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n\n", i18n.F("%s, lock %s", e.ID, e.Lock()).In(l), wrap(e.Says(lab.Question).In(l), columns))
	for _, paragraph := range scene(all, e) {
		fmt.Fprintf(&b, "%s\n", wrap(paragraph.In(l), columns))
	}
	fmt.Fprintf(&b, "\n%s\n", i18n.F("It breaks if one of these is seen:").In(l))
	for _, info := range finding.Kinds() {
		if len(e.About) == 0 || slices.Contains(e.About, info.Kind) {
			fmt.Fprintf(&b, "  %-16s %s\n", info.Kind, hang(info.In(l).Means, 19, columns))
		}
	}
	return b.String()
}

// scene says what is done in an experiment. If the text refers to another experiment, that one's text comes first.
func scene(all lab.Set, e *lab.Experiment) []i18n.Text {
	first := refersTo(all, e)
	if first == nil {
		return []i18n.Text{e.Says(lab.Arrangement)}
	}
	return []i18n.Text{
		i18n.F("In %s: %s", first.ID, first.Says(lab.Arrangement)), i18n.F("Here: %s", e.Says(lab.Arrangement)),
	}
}

// refersTo returns the experiment that the text of another one refers to: the first one of their group. It is nil if
// the text can be understood alone. The Chinese text refers to the same one.
func refersTo(all lab.Set, e *lab.Experiment) *lab.Experiment {
	for i := range all {
		if all[i].Group == e.Group {
			if all[i].ID == e.ID || !strings.Contains(e.Arrangement, " same ") {
				return nil
			}
			return &all[i]
		}
	}
	return nil
}
