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
	"strings"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/experiments"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/testbed"
)

// errUnexpected means that not every result was as expected.
var errUnexpected = errors.New("not as expected")

// runner runs one experiment, with its own setup or its partner's.
type runner func(context.Context, *lab.Experiment) finding.Result

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
		} else if req.lanes || asks != nil {
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
		err = errors.Join(err, saveReport(stderr, req, results, began))
	}
	return errors.Join(err, judgement(req, results, stopped))
}

// play plays the experiments of a request, and tells each result.
func (s *session) play(ctx context.Context, req runRequest, asks *quiz, tell func(finding.Result)) ([]finding.Result, error) {
	run := runner(s.Run)
	if req.swap {
		run = s.Swap
	}
	if asks != nil {
		return asks.play(ctx, s, req.chosen, run, tell)
	}
	told := func(r finding.Result) {
		s.progress.done(r)
		tell(r)
	}
	if !req.typed { // of all, those that mostly wait run at the same time
		return s.RunAll(ctx, req.chosen, run, told)
	}
	var results []finding.Result
	for _, e := range req.chosen {
		one, err := s.RunAll(ctx, []*lab.Experiment{e}, run, told)
		results = append(results, one...)
		if err != nil {
			return results, err
		}
	}
	return results, nil
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

// session is a laboratory that is open: its servers and processes, and a display of its progress.
type session struct {
	*lab.Lab
	env      *testbed.Environment
	progress *progress
	calm     func() bool // ends the watch for Ctrl-C
}

// open opens a laboratory for total experiments of a set, and shows its progress on stderr.
func open(
	ctx context.Context, all lab.Set, options testbed.Options, total int, l i18n.Language, stderr io.Writer,
) (*session, error) {
	p := &progress{w: stderr, total: total, interactive: interactive(stderr), lang: l}
	options.Progress = func(what i18n.Text) { p.note(what.In(l)) }
	options.Notice = func(what i18n.Text) { p.say(what.In(l)) }
	s := &session{progress: p}
	s.calm = context.AfterFunc(ctx, func() { p.say(i18n.F("stopping: experiments end, and servers and processes with them").In(l)) })
	var err error
	if s.env, err = testbed.Open(ctx, options); err != nil {
		s.calm()
		return nil, err
	}
	if s.Lab, err = lab.New(s.env, all); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// close stops the servers and processes.
func (s *session) close() error {
	s.calm()
	s.progress.note(i18n.F("stopping the servers").In(s.progress.lang))
	err := s.env.Close()
	s.progress.clear()
	return err
}

func runHelp(w io.Writer) {
	fmt.Fprint(w, `lab run runs experiments and says whether they came out as expected.

usage: lab run ID... | all [flags]

To learn:
  --quiz         ask for your prediction before each run, and keep count
  --predict P    the prediction, without being asked: holds, breaks, or
                 breaks:KIND, where KIND is the anomaly to be seen, such as
                 "breaks:two holders"; in Chinese too
  --lease D, --work D, --pause D, --buyers N, --stock N, --lock NAME, ...
                 another number for this run, within bounds; lab show ID lists
                 what an experiment has. Whatever comes out is right then: the
                 verdict says what was changed, and whether that turned it
  --swap         run each experiment with its partner's setup: the verdict must
                 turn, so nothing is as expected and the exit code is 1

To print:
  -v             of each experiment all that was seen: what was to be expected,
                 what was done, the picture step by step, every anomaly, every
                 number, the table
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
	verbose bool
	swap    bool
	quiz    bool
	predict *finding.Prediction // nil: none was given
	values  map[string]string   // of parameters that are to be changed
	options testbed.Options
	lang    i18n.Language // of what is printed for people, and of the report
	lanes   bool          // few enough to show each picture, after its run
	typed   bool          // by their ids: they run in that order
	args    []string
}

// experiment returns a chosen experiment, as the request changed it.
func (r *runRequest) experiment(id string) *lab.Experiment {
	i := slices.IndexFunc(r.chosen, func(e *lab.Experiment) bool { return e.ID == id })
	return r.chosen[i]
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
	flags.BoolVar(&req.verbose, "v", false, "")
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
	req.typed = !slices.Contains(ids, "all")
	if !req.typed { // those that are about their processes keep their own number
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

// parameterFlags adds a flag for each parameter of any experiment. The flag --instances is there already.
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

// changed returns the experiments with changed values. The number of processes is also an option of every run: it
// changes only the experiments that are about it.
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

// parseAnywhere accepts flags before, between and after the other arguments, and returns the latter.
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
