package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"seckill/internal/lab"
	"seckill/internal/lab/experiments"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/testbed"
)

func listHelp(w io.Writer) {
	fmt.Fprint(w, `lab list names the experiments, each with the question that it answers.

usage: lab list [--answers] [--json]

  --answers  what each shows, and the expected verdict
  --json     one object per experiment, with hypothesis, setup and sources
`)
}

func list(_ context.Context, args []string, stdout, _ io.Writer) error {
	var asJSON, answers bool
	flags := newFlags("list")
	flags.BoolVar(&asJSON, "json", false, "")
	flags.BoolVar(&answers, "answers", false, "")
	rest, err := parseAnywhere(flags, args)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usagef("unexpected argument %q", rest[0])
	}
	all, err := experiments.All()
	switch {
	case err != nil:
		return err
	case asJSON:
		return listJSON(stdout, all)
	case answers:
		return listAnswers(stdout, all)
	}
	return listQuestions(stdout, all)
}

// listQuestions does not give the outcomes away.
func listQuestions(w io.Writer, all lab.Set) error {
	const indent = 4
	columns := min(width(w), defaultWidth)
	group := ""
	for i := range all {
		e := &all[i]
		if e.Group != group {
			if group != "" {
				fmt.Fprintln(w)
			}
			group = e.Group
			fmt.Fprintln(w, group)
		}
		fmt.Fprintf(w, "\n  %-34s lock: %s\n%*s%s\n", e.ID, e.Lock(), indent, "", hang(e.Question, indent, columns))
		if lacks := testbed.Defaults().Lacks(e.Needs); !lacks.IsZero() {
			fmt.Fprintf(w, "%*snot here: %s\n", indent, "", hang(lacks.String(), indent, columns))
		}
	}
	_, err := fmt.Fprintf(w, "\n%d experiments. lab show ID says more about one, lab run --quiz ID lets you predict its outcome,\nand lab list --answers gives the outcomes away.\n", len(all))
	return err
}

func listAnswers(w io.Writer, all lab.Set) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "EXPERIMENT\tEXPECTED\tLOCK\tWHAT")
	for i := range all {
		e := &all[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", e.ID, e.Expect, e.Lock(), e.Title)
	}
	return table.Flush()
}

// listed is an experiment in the output of lab list --json.
type listed struct {
	ID          string           `json:"id"`
	Group       string           `json:"group"`
	Title       string           `json:"title"`
	Question    string           `json:"question"`
	Lock        string           `json:"lock"`
	Expect      finding.Verdict  `json:"expect"`
	About       []finding.Kind   `json:"about"`
	Partner     string           `json:"partner"`
	Hypothesis  string           `json:"hypothesis"`
	Arrangement string           `json:"arrangement"`
	Sources     []lab.Source     `json:"sources"`
	Page        string           `json:"page,omitempty"` // in docs, where no document describes it
	Reports     []string         `json:"reports"`        // of real programs that had the fault
	Needs       []testbed.Server `json:"needs"`
	Setup       lab.Setup        `json:"setup"`
	Parameters  []parameter      `json:"parameters"`
	K6          []string         `json:"k6"`
	Command     string           `json:"command"`
}

func listJSON(w io.Writer, all lab.Set) error {
	out := json.NewEncoder(w)
	for i := range all {
		e := &all[i]
		if err := out.Encode(listed{
			ID: e.ID, Group: e.Group, Title: e.Title, Question: e.Question, Lock: e.Lock(), Expect: e.Expect, About: orEmpty(e.About), Partner: e.Partner,
			Hypothesis: e.Hypothesis, Arrangement: e.Arrangement, Sources: orEmpty(e.Sources), Page: e.Page, Reports: reportsOf(e), Needs: orEmpty(e.Needs),
			Setup: e.Setup, Parameters: parametersOf(e), K6: orEmpty(e.K6), Command: e.Command(),
		}); err != nil {
			return err
		}
	}
	return nil
}

func reportsOf(e *lab.Experiment) []string {
	urls := []string{}
	for _, r := range e.Reports {
		urls = append(urls, r.URL())
	}
	return urls
}

// parameter is what can be changed of an experiment.
type parameter struct {
	Name   string `json:"name"`
	Value  string `json:"value"` // its own
	Bounds string `json:"bounds"`
	About  string `json:"about"`
}

func parametersOf(e *lab.Experiment) []parameter {
	all := []parameter{}
	for _, p := range e.Changeable() {
		all = append(all, parameter{Name: p.Name, Value: p.Value(e.Setup), Bounds: p.Bounds, About: p.About.String()})
	}
	return all
}

// orEmpty avoids null in the JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

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
		fmt.Fprintf(w, "It needs %s.\n", strings.Join(needed(e.Needs), ", and "))
	}
	if lacks := testbed.Defaults().Lacks(e.Needs); !lacks.IsZero() {
		fmt.Fprintf(w, "It cannot be run here: %s\n", wrap(lacks.String(), columns))
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

// needed names servers, each once.
func needed(servers []testbed.Server) (all []string) {
	for _, one := range servers {
		if name := one.String(); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// describe says what is done and what counts, and not how it ends.
func describe(all lab.Set, e *lab.Experiment, columns int, l i18n.Language) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n\n", i18n.F("%s, lock %s", e.ID, e.Lock()).In(l), wrap(e.Says(lab.Question).In(l), columns))
	for _, paragraph := range steps(all, e) {
		fmt.Fprintf(&b, "%s\n", wrap(paragraph.In(l), columns))
	}
	fmt.Fprintf(&b, "\n%s\n", i18n.F("It breaks if one of these is seen:").In(l))
	for _, info := range finding.Kinds() {
		if len(e.About) == 0 || slices.Contains(e.About, info.Kind) {
			in := info.In(l)
			fmt.Fprintf(&b, "  %s %s\n", padded(in.Title, 16), hang(in.Means, 19, columns))
		}
	}
	return b.String()
}

// steps says what is done in an experiment. If the text refers to another experiment, that one's text comes first.
func steps(all lab.Set, e *lab.Experiment) []i18n.Text {
	first := refersTo(all, e)
	if first == nil {
		return []i18n.Text{e.Says(lab.Arrangement)}
	}
	return []i18n.Text{
		i18n.F("In %s (lab show %s): %s", first.ID, first.ID, first.Says(lab.Arrangement)), i18n.F("Here: %s", e.Says(lab.Arrangement)),
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
