package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"text/tabwriter"
	"time"

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
	Decision    string           `json:"decision,omitempty"` // where no document describes it
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
			Hypothesis: e.Hypothesis, Arrangement: e.Arrangement, Sources: orEmpty(e.Sources), Decision: e.Decision, Needs: orEmpty(e.Needs),
			Setup: e.Setup, Parameters: parametersOf(e), K6: orEmpty(e.K6), Command: e.Command(),
		}); err != nil {
			return err
		}
	}
	return nil
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

func runHelp(w io.Writer) {
	fmt.Fprint(w, `lab run runs experiments and says whether they came out as expected.

usage: lab run ID... | all [flags]

To learn:
  --quiz         ask for your prediction before each run, and keep count
  --predict P    the prediction, without being asked: holds, breaks, or
                 breaks:KIND, where KIND is the anomaly to be seen, as oversold
  --lease D, --work D, --pause D, --buyers N, --stock N, --lock NAME, ...
                 another number for this run, within bounds; lab show ID lists
                 what an experiment has. Whatever comes out is right then: the
                 verdict says what was changed, and whether that turned it
  --swap         run each experiment with its partner's setup: the verdict must
                 turn, so nothing is as expected and the exit code is 1

To print:
  --json         one object per experiment on standard output, nothing else
  --report DIR   write DIR/index.html, one file that needs no other
  --lang L       the language of what is printed and of the report: en, the
                 default, or zh, Chinese; --json is English

To run:
  --instances N  API processes behind the load, 1 to 8 (default 2); of an
                 experiment that is about their number it changes that
  --duration D   longest time in which new buyers come, 100ms to 1m (default 3s)
  --seed N       the same seed gives the same load and faults (default 1)
  --embedded     use no installed server: SQLite and a Redis written in Go.
                 Experiments that would show something else there are skipped
  --api PATH     the service's binary (default: api beside this program, else
                 built from source with the go command)

It starts servers of its own on free ports (redis-server, mariadbd, ZooKeeper,
as far as they are installed), and nothing of it stays, also after Ctrl-C. What
is not installed is named, and the experiments that need it are skipped.

Progress goes to standard error. Exit code: 0 when all that ran came out as
expected, 1 when not, 2 for wrong usage.
`)
}

// runRequest is a parsed call of lab run.
type runRequest struct {
	all     lab.Set
	chosen  []*lab.Experiment
	json    bool
	report  string
	swap    bool
	quiz    bool
	predict *finding.Prediction // nil: none was given
	values  map[string]string   // of parameters that are to be changed
	options testbed.Options
	lang    i18n.Language // of what is printed for people, and of the report
	lanes   bool          // few enough to show each picture
	args    []string
}

// predicts reports whether outcomes are predicted.
func (r *runRequest) predicts() bool { return r.quiz || r.predict != nil }

// Limits of the flags of lab run.
const (
	maxInstances = 8
	minDuration  = 100 * time.Millisecond
	maxDuration  = time.Minute
	// fewEnough is the number of experiments up to which the terminal shows pictures.
	fewEnough = 4
)

func parseRun(all lab.Set, args []string) (runRequest, error) {
	req := runRequest{all: all, options: testbed.Defaults(), lang: i18n.English, values: map[string]string{}}
	flags := newFlags("run")
	flags.BoolVar(&req.json, "json", false, "")
	flags.StringVar(&req.report, "report", "", "")
	flags.BoolVar(&req.swap, "swap", false, "")
	flags.BoolVar(&req.quiz, "quiz", false, "")
	flags.Func("predict", "", func(text string) error {
		p, err := finding.ParsePrediction(text)
		req.predict = &p
		return err
	})
	flags.Func("lang", "", func(text string) error {
		req.lang = i18n.Language(text)
		if !slices.Contains(i18n.Languages(), req.lang) {
			return errors.New("it is en or zh")
		}
		return nil
	})
	optionFlags(flags, &req.options)
	parameterFlags(flags, all, req.values)
	ids, err := parseAnywhere(flags, args)
	if err != nil {
		return req, err
	}
	if len(ids) == 0 {
		return req, usagef("which experiment? its id, several, or all; lab list names them")
	}
	if err := checkOptions(req.options); err != nil {
		return req, err
	}
	req.chosen, err = all.Select(ids)
	if errors.Is(err, lab.ErrUnknownExperiment) {
		return req, usageError{reason: err.Error()}
	}
	if err != nil {
		return req, err
	}
	flags.Visit(func(f *flag.Flag) {
		if f.Name == "instances" {
			req.values["instances"] = f.Value.String()
		}
	})
	if req.swap && len(req.values) > 0 && !onlyInstances(req.values) {
		return req, usagef("--swap and a changed number turn the verdict for different reasons: use one of them")
	}
	req.lanes = len(req.chosen) <= fewEnough
	req.args = args
	if slices.Contains(ids, "all") { // those that are about their processes keep their own number
		delete(req.values, "instances")
	}
	req.chosen, err = changed(req.chosen, req.values, req.swap)
	return req, err
}

// optionFlags adds the flags that say how experiments are run.
func optionFlags(flags *flag.FlagSet, o *testbed.Options) {
	flags.BoolVar(&o.Embedded, "embedded", false, "")
	flags.IntVar(&o.Instances, "instances", o.Instances, "")
	flags.DurationVar(&o.Duration, "duration", o.Duration, "")
	flags.Int64Var(&o.Seed, "seed", o.Seed, "")
	flags.StringVar(&o.APIBinary, "api", "", "")
}

func checkOptions(o testbed.Options) error {
	switch {
	case o.Instances < 1 || o.Instances > maxInstances:
		return usagef("--instances is %d; 1 to %d", o.Instances, maxInstances)
	case o.Duration < minDuration || o.Duration > maxDuration:
		return usagef("--duration is %v; %v to %v", o.Duration, minDuration, maxDuration)
	case o.Seed < 1 || o.Seed == math.MaxInt64:
		return usagef("--seed is %d; a number from 1", o.Seed)
	}
	if err := checkBinary(o.APIBinary); err != nil {
		return usagef("--api: %v", err)
	}
	return nil
}

// parameterFlags adds a flag for each parameter of any experiment. The flag --instances is
// there already.
func parameterFlags(flags *flag.FlagSet, all lab.Set, values map[string]string) {
	for i := range all {
		for _, p := range all[i].Parameters {
			if flags.Lookup(p.Name) == nil {
				flags.Func(p.Name, "", func(text string) error { values[p.Name] = text; return nil })
			}
		}
	}
}

func onlyInstances(values map[string]string) bool {
	return len(values) == 1 && values["instances"] != ""
}

// changed returns the experiments with changed values. The number of processes is also an
// option of every run: it changes only the experiments that are about it.
func changed(chosen []*lab.Experiment, values map[string]string, swap bool) ([]*lab.Experiment, error) {
	var all []*lab.Experiment
	for _, e := range chosen {
		own := maps.Clone(values)
		about := slices.ContainsFunc(e.Changeable(), func(p lab.Parameter) bool { return p.Name == "instances" })
		if !about || swap {
			delete(own, "instances")
		}
		with, err := e.With(own)
		if err != nil {
			return nil, usageError{reason: err.Error()}
		}
		all = append(all, with)
	}
	return all, nil
}

// checkBinary reports what is wrong with the path of a program; "" is allowed.
func checkBinary(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", path)
	}
	return err
}

// newFlags returns a flag set that does not print errors itself.
func newFlags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

// parseAnywhere accepts flags before, between and after the other arguments, and returns the
// latter.
func parseAnywhere(flags *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, errHelp
		} else if err != nil {
			return nil, usagef("%v", err)
		}
		if flags.NArg() == 0 {
			return rest, nil
		}
		rest, args = append(rest, flags.Arg(0)), flags.Args()[1:]
	}
}
