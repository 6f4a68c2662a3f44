package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"seckill/internal/lab"
	"seckill/internal/lab/experiments"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/testbed"
)

func sweepHelp(w io.Writer) {
	fmt.Fprint(w, `lab sweep runs an experiment with several values of one of its numbers, and
counts how many runs of each value broke.

usage: lab sweep ID --PARAMETER FROM..TO [flags]

  --lease 50ms..800ms  the number and its range; lab show ID lists the numbers
                       that it has; others can be given a single value
  --steps N            values, 2 to 50 (default 6)
  --runs N             runs of each value, 1 to 50 (default 3)
  --json               one object per value on standard output, nothing else
  --seed N, --embedded, --api PATH   as in lab run

Progress goes to standard error. Exit code: 0 when every run came to a verdict,
1 when not, 2 for wrong usage.
`)
}

// sweepRequest is a parsed call of lab sweep.
type sweepRequest struct {
	id, parameter string
	steps         []*sweepStep
	runs          int
	json          bool
	options       testbed.Options
}

// sweepStep is a value, and what came of its runs.
type sweepStep struct {
	ID        string `json:"id"`
	Parameter string `json:"parameter"`
	Value     string `json:"value"`
	Runs      int    `json:"runs"`
	Broke     int    `json:"broke"`
	Held      int    `json:"held"`
	// Reason is why a run came to no verdict.
	Reason string `json:"reason,omitempty"`

	experiment *lab.Experiment
}

func sweep(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	all, err := experiments.All()
	if err != nil {
		return err
	}
	req, err := parseSweep(all, args)
	if err != nil {
		return err
	}
	s, err := open(ctx, all, req.options, len(req.steps)*req.runs, i18n.English, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	stopped := s.sweep(ctx, req)
	s.progress.clear()
	if req.json {
		for _, step := range req.steps {
			err = errors.Join(err, json.NewEncoder(stdout).Encode(step))
		}
	} else {
		err = printSweep(stdout, req)
	}
	return errors.Join(err, req.failed(stopped))
}

// sweep plays each value as often as was asked for.
func (s *session) sweep(ctx context.Context, req sweepRequest) (stopped error) {
	var chosen []*lab.Experiment
	by := map[*lab.Experiment]*sweepStep{}
	for _, step := range req.steps {
		by[step.experiment] = step
		chosen = append(chosen, slices.Repeat([]*lab.Experiment{step.experiment}, req.runs)...)
	}
	var mu sync.Mutex
	_, stopped = s.RunAll(ctx, chosen, func(ctx context.Context, e *lab.Experiment) finding.Result {
		r := s.Run(ctx, e)
		if ctx.Err() != nil {
			return r // cut off: it says nothing
		}
		mu.Lock()
		defer mu.Unlock()
		by[e].count(&r)
		s.progress.step(by[e], &r)
		return r
	}, func(finding.Result) {})
	return stopped
}

func (step *sweepStep) count(r *finding.Result) {
	step.Runs++
	switch r.Observed {
	case finding.Breaks:
		step.Broke++
	case finding.Holds:
		step.Held++
	default:
		step.Reason = r.Skipped + r.Failed
	}
}

// step prints the result of one run of a sweep.
func (p *progress) step(step *sweepStep, r *finding.Result) {
	p.clear()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished++
	fmt.Fprintf(p.w, "[%*d/%d] --%s %-8s %s\n", len(strconv.Itoa(p.total)), p.finished, p.total, step.Parameter, step.Value, observed(r))
}

// failed is the error that decides the exit code.
func (req *sweepRequest) failed(stopped error) error {
	played, without, reason := 0, 0, ""
	for _, step := range req.steps {
		played += step.Runs
		without += step.Runs - step.Broke - step.Held
		if reason == "" {
			reason, _, _ = strings.Cut(step.Reason, "\n")
		}
	}
	switch {
	case stopped != nil:
		return fmt.Errorf("stopped after %d of %d runs: %w", played, len(req.steps)*req.runs, stopped)
	case without > 0:
		return fmt.Errorf("%d of %d runs without a verdict: %s", without, played, reason)
	}
	return nil
}

// printSweep prints a table with a bar for each value.
func printSweep(w io.Writer, req sweepRequest) error {
	const bar = 30
	wide := utf8.RuneCountInString(req.parameter)
	for _, step := range req.steps {
		wide = max(wide, utf8.RuneCountInString(step.Value))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d runs of each value\n\n  %-*s  broke\n", req.id, req.runs, wide, req.parameter)
	for _, step := range req.steps {
		judged := step.Broke + step.Held
		filled := 0
		if judged > 0 {
			filled = (bar*step.Broke + judged/2) / judged
		}
		fmt.Fprintf(&b, "  %-*s  %2d of %-2d  %s%s", wide, step.Value, step.Broke, judged, strings.Repeat("█", filled), strings.Repeat("·", bar-filled))
		if without := step.Runs - judged; without > 0 {
			fmt.Fprintf(&b, "  %d without a verdict", without)
		}
		b.WriteByte('\n')
	}
	if text := req.turns(); text != "" {
		fmt.Fprintf(&b, "\n%s\n", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// turns says where the verdict turns, if every run was judged and there is one such place.
func (req *sweepRequest) turns() string {
	var verdicts []finding.Verdict
	for _, step := range req.steps {
		switch {
		case step.Broke == req.runs:
			verdicts = append(verdicts, finding.Breaks)
		case step.Held == req.runs:
			verdicts = append(verdicts, finding.Holds)
		default:
			return "" // by chance, or not judged
		}
	}
	changes := 0
	at := 0
	for i := range verdicts[1:] {
		if verdicts[i] != verdicts[i+1] {
			changes, at = changes+1, i
		}
	}
	switch changes {
	case 0:
		return fmt.Sprintf("It %s with every value.", verdicts[0])
	case 1:
		return fmt.Sprintf("It %s up to %s, and %s from %s.", verdicts[at], req.steps[at].Value, verdicts[at+1], req.steps[at+1].Value)
	}
	return ""
}

const (
	maxSteps = 50
	maxRuns  = 50
)

func parseSweep(all lab.Set, args []string) (sweepRequest, error) {
	req := sweepRequest{options: testbed.Defaults()}
	steps, values := 0, map[string]string{}
	flags := newFlags("sweep")
	flags.IntVar(&steps, "steps", 6, "")
	flags.IntVar(&req.runs, "runs", 3, "")
	flags.BoolVar(&req.json, "json", false, "")
	flags.BoolVar(&req.options.Embedded, "embedded", false, "")
	flags.Int64Var(&req.options.Seed, "seed", req.options.Seed, "")
	flags.StringVar(&req.options.APIBinary, "api", "", "")
	parameterFlags(flags, all, values)
	ids, err := parseAnywhere(flags, args)
	if err != nil {
		return req, err
	}
	switch {
	case len(ids) != 1 || ids[0] == "all":
		return req, usagef("which experiment? the id of one; lab list names them")
	case steps < 2 || steps > maxSteps:
		return req, usagef("--steps is %d; 2 to %d", steps, maxSteps)
	case req.runs < 1 || req.runs > maxRuns:
		return req, usagef("--runs is %d; 1 to %d", req.runs, maxRuns)
	case req.options.Seed < 1:
		return req, usagef("--seed is %d; a number from 1", req.options.Seed)
	}
	if err := checkBinary(req.options.APIBinary); err != nil {
		return req, usagef("--api: %v", err)
	}
	chosen, err := all.Select(ids)
	if errors.Is(err, lab.ErrUnknownExperiment) {
		return req, usageError{reason: err.Error()}
	} else if err != nil {
		return req, err
	}
	req.id = chosen[0].ID
	return req, req.plan(chosen[0], values, steps)
}

// plan makes a step of each value. All of them are checked before the first run.
func (req *sweepRequest) plan(e *lab.Experiment, values map[string]string, steps int) error {
	for name, text := range values {
		if strings.Contains(text, "..") {
			if req.parameter != "" {
				return usagef("one number at a time: --%s or --%s", min(req.parameter, name), max(req.parameter, name))
			}
			req.parameter = name
		}
	}
	if req.parameter == "" {
		return usagef("which number, and from where to where? such as --lease 50ms..800ms; lab show %s lists the numbers", e.ID)
	}
	from, to, _ := strings.Cut(values[req.parameter], "..")
	between, err := valuesBetween(from, to, steps)
	if err != nil {
		return usagef("--%s %s..%s: %v", req.parameter, from, to, err)
	}
	for _, value := range between {
		own := maps.Clone(values)
		own[req.parameter] = value
		changed, err := e.With(own)
		if err != nil {
			return usageError{reason: err.Error()}
		}
		req.steps = append(req.steps, &sweepStep{ID: e.ID, Parameter: req.parameter, Value: value, experiment: changed})
	}
	return nil
}

// valuesBetween returns evenly spaced values with both ends, all of them different.
func valuesBetween(from, to string, steps int) ([]string, error) {
	unit := time.Duration(1)
	show := func(n time.Duration) string { return strconv.Itoa(int(n)) }
	least, err1 := strconv.Atoi(from)
	most, err2 := strconv.Atoi(to)
	a, b := time.Duration(least), time.Duration(most)
	if err1 != nil || err2 != nil {
		unit, show = time.Millisecond, time.Duration.String
		a, err1 = time.ParseDuration(from)
		b, err2 = time.ParseDuration(to)
	}
	switch {
	case err1 != nil || err2 != nil:
		return nil, errors.New("a range is of two durations or two whole numbers, such as 50ms..800ms")
	case a >= b:
		return nil, errors.New("it goes from the smaller to the greater")
	}
	var values []string
	for i := range time.Duration(steps) {
		value := show((a + (b-a)*i/time.Duration(steps-1)).Round(unit))
		if !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return values, nil
}
