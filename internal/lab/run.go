package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/testbed"
	"seckill/internal/testkit"
)

// Lab runs experiments in an environment.
type Lab struct {
	env *testbed.Environment
	set Set
	// watch starts to measure how long this process does not run.
	watch func() (stop func() (stalled time.Duration))
}

// New returns a lab for the experiments of a set.
func New(env *testbed.Environment, set Set) (*Lab, error) {
	if err := set.Validate(); err != nil {
		return nil, err
	}
	return &Lab{env: env, set: set, watch: watchStalls}, nil
}

func watchStalls() (stop func() time.Duration) {
	began, ran := time.Now(), testkit.StartStopwatch()
	return func() time.Duration { return time.Since(began) - ran.Stop() }
}

// Run runs an experiment. If the run fails or cannot be done, the result says so.
func (l *Lab) Run(ctx context.Context, e *Experiment) finding.Result {
	return l.runWith(ctx, e, e)
}

// Swap runs an experiment with its partner's setup, and judges it by the experiment's own
// expectation: the result must not be as expected.
func (l *Lab) Swap(ctx context.Context, e *Experiment) finding.Result {
	partner, err := l.set.Find(e.Partner)
	if err != nil {
		return finding.Result{ID: e.ID, Failed: err.Error()}
	}
	return l.runWith(ctx, e, partner)
}

const (
	// maxAttempts is how often an experiment is run until it comes to a verdict.
	maxAttempts = 3
	// lateMachine is how long a process must not have run for its machine to be late.
	lateMachine = 100 * time.Millisecond
)

// runWith runs an experiment with the setup of another one, or its own. A run that comes to no
// verdict on a machine that was late is repeated: a step of its preparation may have missed its
// limit. A verdict stands, whatever it is; one that is not the expected one says how late the machine was.
func (l *Lab) runWith(ctx context.Context, e, of *Experiment) finding.Result {
	for attempt := 1; ; attempt++ {
		stop := l.watch()
		r := l.attempt(ctx, e, of)
		stalled := stop()
		if stalled >= lateMachine && r.Observed != "" && (of != e || !r.AsExpected) {
			r.Measures = append(r.Measures, finding.Measure{
				Name: i18n.F("this machine was late, which may have decided it, by"), Value: float64(stalled.Milliseconds()), Unit: i18n.F("ms"),
			})
		}
		if r.Failed == "" || stalled < lateMachine || attempt == maxAttempts || ctx.Err() != nil {
			return r
		}
		reason, _, _ := strings.Cut(r.Failed, "\n")
		l.env.Options().Notice(i18n.F("%s: no verdict on a busy machine, which was late by %v (%s); it is run again",
			e.ID, stalled.Round(time.Millisecond), reason))
	}
}

// attempt runs an experiment once, on the servers that the setup needs.
func (l *Lab) attempt(ctx context.Context, e, of *Experiment) finding.Result {
	options := l.env.Options()
	t := newTrial(e, finding.Result{
		ID: e.ID, Title: e.Title, Group: e.Group, Lock: of.Lock(), Expect: e.Expect, Changed: of.Changed,
		About: e.About, Seed: options.Seed, Command: strings.Join(append([]string{e.Command()}, nonDefaultFlags(options)...), " "),
	})
	if of != e {
		t.result.SetupOf = of.ID
		t.result.Command += " --swap"
	}
	if t.result.About == nil {
		t.result.About = slices.Collect(everyKind())
	}
	skipped, err := l.env.Run(ctx, e.ID, of.Needs, func(r *testbed.Run) {
		t.Run = r
		e.Scenario(t, of.Setup)
	})
	switch {
	case err != nil:
		t.result.Failed = err.Error()
	case !skipped.IsZero():
		t.result.Skipped, t.result.SkippedFor = skipped.String(), skipped
	default:
		t.result = t.verdict()
	}
	if t.Run != nil {
		t.result.Engine = t.Engine()
		t.result.DurationMS = t.Elapsed().Milliseconds()
	}
	return t.result
}

// nonDefaultFlags returns the flags of lab run that differ from the defaults.
func nonDefaultFlags(o testbed.Options) (given []string) {
	usual := testbed.Defaults()
	if o.Seed != usual.Seed {
		given = append(given, fmt.Sprintf("--seed %d", o.Seed))
	}
	if o.Instances != usual.Instances {
		given = append(given, fmt.Sprintf("--instances %d", o.Instances))
	}
	if o.Duration != usual.Duration {
		given = append(given, fmt.Sprintf("--duration %v", o.Duration))
	}
	if o.Embedded {
		given = append(given, "--embedded")
	}
	return given
}

func noAnomalies() map[finding.Kind]int {
	anomalies := map[finding.Kind]int{}
	for kind := range everyKind() {
		anomalies[kind] = 0
	}
	return anomalies
}

func everyKind() func(func(finding.Kind) bool) {
	return func(yield func(finding.Kind) bool) {
		for _, info := range finding.Kinds() {
			if !yield(info.Kind) {
				return
			}
		}
	}
}

// maxParallel is how many quiet experiments run at once: they mostly wait.
const maxParallel = 4

// RunAll runs experiments, the quiet ones in parallel and then the others one by one. It
// reports each result as soon as it is known, from one goroutine at a time. It returns the
// results in the order of the request. Those that ctx cut off are left out, and its error is
// returned.
func (l *Lab) RunAll(ctx context.Context, asked []*Experiment, run func(context.Context, *Experiment) finding.Result, tell func(finding.Result)) ([]finding.Result, error) {
	results := make([]*finding.Result, len(asked))
	told := make(chan int)
	var playing errgroup.Group
	playing.Go(func() error {
		defer close(told)
		one := func(i int) {
			r := run(ctx, asked[i])
			if ctx.Err() == nil {
				results[i] = &r
				told <- i
			}
		}
		var quiet errgroup.Group
		quiet.SetLimit(maxParallel)
		for i, e := range asked {
			if e.Quiet {
				quiet.Go(func() error { one(i); return nil })
			}
		}
		_ = quiet.Wait() // they return nothing
		for i, e := range asked {
			if !e.Quiet {
				one(i)
			}
		}
		return ctx.Err()
	})
	for i := range told {
		tell(*results[i])
	}
	err := playing.Wait()
	var done []finding.Result
	for _, r := range results {
		if r != nil {
			done = append(done, *r)
		}
	}
	return done, err
}

// Select returns experiments by their ids; "all" is all of them. For an unknown id it returns
// [ErrUnknownExperiment] with similar ids.
func (s Set) Select(ids []string) ([]*Experiment, error) {
	chosen := map[string]*Experiment{}
	var errs []error
	for _, id := range ids {
		if id == "all" {
			for i := range s {
				chosen[s[i].ID] = &s[i]
			}
			continue
		}
		e, err := s.Find(id)
		if err != nil {
			errs = append(errs, s.suggest(id, err))
			continue
		}
		chosen[id] = e
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	inOrder := slices.Collect(maps.Values(chosen))
	slices.SortFunc(inOrder, func(a, b *Experiment) int { return s.index(a.ID) - s.index(b.ID) })
	return inOrder, nil
}

func (s Set) index(id string) int {
	return slices.IndexFunc(s, func(e Experiment) bool { return e.ID == id })
}

// suggest names the experiments that share a word with id.
func (s Set) suggest(id string, err error) error {
	var near []string
	for _, e := range s {
		for word := range strings.SplitSeq(id, "-") {
			if len(word) > 2 && strings.Contains(e.ID, word) && !slices.Contains(near, e.ID) {
				near = append(near, e.ID)
			}
		}
	}
	if len(near) == 0 {
		return fmt.Errorf("%w; see lab list", err)
	}
	return fmt.Errorf("%w; perhaps %s", err, strings.Join(near[:min(5, len(near))], ", "))
}
