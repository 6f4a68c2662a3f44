package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/load"
	"seckill/internal/lab/testbed"
	"seckill/internal/lab/witness"
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
// limit; one for which there is no service would come to the same. So is one whose situation did not arise. A verdict stands, whatever it is; one that is not the expected one says
// how late the machine was.
func (l *Lab) runWith(ctx context.Context, e, of *Experiment) finding.Result {
	for attempt := 1; ; attempt++ {
		stop := l.watch()
		r, missed, err := l.attempt(ctx, e, of)
		stalled := stop()
		if !missed.IsZero() && attempt < maxAttempts && ctx.Err() == nil {
			l.env.Options().Notice(i18n.F("%s: the situation did not arise: %s; it is run again", e.ID, missed))
			continue
		}
		if stalled >= lateMachine && r.Observed != "" && (of != e || !r.AsExpected) {
			r.Measures = append(r.Measures, finding.Measure{
				Name: i18n.F("this machine was late, which may have decided it, by"), Value: float64(stalled.Milliseconds()), Unit: i18n.F("ms"),
			})
		}
		if r.Failed == "" || errors.Is(err, testbed.ErrNoService) || stalled < lateMachine || attempt == maxAttempts || ctx.Err() != nil {
			return r
		}
		reason, _, _ := strings.Cut(r.Failed, "\n")
		l.env.Options().Notice(i18n.F("%s: no verdict on a busy machine, which was late by %v (%s); it is run again",
			e.ID, stalled.Round(time.Millisecond), reason))
	}
}

// attempt runs an experiment once, on the servers that the setup needs.
// If it holds because its situation did not arise, there is no verdict, and missed says what did not happen.
func (l *Lab) attempt(ctx context.Context, e, of *Experiment) (r finding.Result, missed i18n.Text, err error) {
	options := l.env.Options()
	t := newTrial(e, finding.Result{
		ID: e.ID, Title: e.Title, Group: e.Group, Lock: of.Lock(), Expect: e.Expect, Changed: of.Changed,
		About: e.About, Seed: options.Seed, Command: strings.Join(append([]string{e.Command()}, nonDefaultFlags(options)...), " "),
	})
	if len(of.Changed) == 0 {
		t.situation = of.Situation
	}
	if of != e {
		t.result.SetupOf = of.ID
		t.result.Command += " --swap"
	}
	if t.result.About == nil {
		t.result.About = everyKind()
	}
	skipped, err := l.env.WithRig(ctx, e.ID, of.Needs, func(r *testbed.Rig) {
		t.Rig = r
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
	if t.Rig != nil {
		t.result.Engine = t.Engine()
		t.result.DurationMS = t.Elapsed().Milliseconds()
	}
	return t.result, t.missed, err
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

func everyKind() (kinds []finding.Kind) {
	for _, info := range finding.Kinds() {
		kinds = append(kinds, info.Kind)
	}
	return kinds
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

// Trial is one run of an experiment: its testbed, and what the scenario observes. A step that
// cannot be done ends it, as Fatalf ends a test.
type Trial struct {
	*testbed.Rig
	experiment *Experiment

	mu        sync.Mutex
	result    finding.Result
	checked   map[finding.Kind]bool // kinds that were looked for
	witnesses []finding.Witness
	situation *Situation // nil: it always arises
	missed    i18n.Text  // what did not happen, of a situation that did not arise
}

func newTrial(e *Experiment, r finding.Result) *Trial {
	r.Anomalies = map[finding.Kind]int{}
	for _, kind := range everyKind() {
		r.Anomalies[kind] = 0
	}
	return &Trial{experiment: e, result: r, checked: map[finding.Kind]bool{}}
}

// Found counts anomalies of a kind. With 0 it says that the scenario has looked for them: only
// a kind that was looked for can be absent.
func (t *Trial) Found(kind finding.Kind, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checked[kind] = true
	t.result.Anomalies[kind] += n
}

// Witness adds a proof, or a picture of how an anomaly was prevented (without a kind).
func (t *Trial) Witness(w finding.Witness) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.witnesses = append(t.witnesses, w)
}

// Measure adds a number to the result.
func (t *Trial) Measure(name i18n.Text, value float64, unit i18n.Text) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Measures = append(t.result.Measures, finding.Measure{Name: name, Value: value, Unit: unit})
}

// Load adds the answers to buyers.
func (t *Trial) Load(o *load.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Requests += o.Requests
	t.result.Latency = &o.Latency
	if t.result.Answers == nil {
		t.result.Answers = map[string]int{}
	}
	for code, n := range o.Answers {
		t.result.Answers[code] += n
	}
}

// Judge judges the evidence and adds its anomalies and witnesses. If nothing decisive was
// found, and the scenario has drawn nothing, it adds a picture of the lock's history.
func (t *Trial) Judge(evidence judge.Evidence) judge.Judgement {
	j := judge.Judge(evidence)
	for kind, n := range j.Anomalies {
		t.Found(kind, n)
	}
	for _, w := range witness.Proofs(j, t.experiment.About...) {
		t.Witness(w)
	}
	if !t.hasDecisiveWitness() {
		if w, ok := witness.Picture(evidence, ""); ok {
			t.Witness(w)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.situation != nil && !t.situation.Arose(j.History) {
		t.missed = t.situation.Missed
	}
	if evidence.Audit != nil {
		t.result.Orders = int(evidence.Audit.Orders)
	}
	t.result.Measures = append(t.result.Measures, j.Measures...)
	return j
}

// hasDecisiveWitness reports whether there is already a witness of a deciding kind, or the
// scenario's own picture of how it was prevented.
func (t *Trial) hasDecisiveWitness() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.witnesses, func(w finding.Witness) bool { return w.Kind == "" || t.experiment.Decides(w.Kind) })
}

// verdict derives the verdict from the counts. An anomaly proves that it breaks. It holds only
// if all deciding kinds were looked for.
func (t *Trial) verdict() finding.Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, e := t.result, t.experiment
	r.Observed = finding.Holds
	for kind, n := range r.Anomalies {
		if n > 0 && e.Decides(kind) {
			r.Observed = finding.Breaks
		}
	}
	if missing := t.unchecked(); r.Observed == finding.Holds && missing != "" {
		r.Observed, r.Failed = "", "nobody looked for "+missing
		return r
	}
	if r.Observed == finding.Breaks {
		t.missed = i18n.Text{}
	} else if !t.missed.IsZero() {
		r.Observed, r.Failed = "", fmt.Sprintf("the situation did not arise in %d runs: %s", maxAttempts, t.missed)
		return r
	}
	r.AsExpected = r.Observed == e.Expect
	r.Turned = len(r.Changed) > 0 && r.Observed != e.Expect
	if e.Expect == finding.Breaks && r.Anomalies[e.About[0]] == 0 {
		r.AsExpected = false // it breaks, but not in the way that was to be shown
	}
	r.Witness, r.More = mainWitness(firstOfEachKind(t.witnesses, r.Observed), e.About)
	if r.Witness != nil {
		all := witness.Gather(append([]finding.Witness{*r.Witness}, r.More...))
		r.Witness, r.More = &all[0], all[1:]
	}
	return r
}

// unchecked names the deciding kinds that nobody looked for. The mutex is held.
func (t *Trial) unchecked() string {
	about := t.experiment.About
	if len(about) == 0 {
		about = everyKind()
	}
	var names []string
	for _, kind := range about {
		if !t.checked[kind] {
			names = append(names, string(kind))
		}
	}
	return strings.Join(names, ", ")
}

// firstOfEachKind returns the first witness of each kind: the scenario's own come before the
// judge's. If the experiment breaks, pictures of prevention are left out.
func firstOfEachKind(proofs []finding.Witness, observed finding.Verdict) []finding.Witness {
	var some []finding.Witness
	for _, w := range proofs {
		same := func(other finding.Witness) bool { return other.Kind == w.Kind }
		if w.Kind == "" && observed == finding.Breaks || slices.ContainsFunc(some, same) {
			continue
		}
		some = append(some, w)
	}
	return some
}

// mainWitness returns the witness that the experiment is about: of its kinds in their order,
// otherwise a picture of prevention, otherwise any.
func mainWitness(proofs []finding.Witness, about []finding.Kind) (*finding.Witness, []finding.Witness) {
	if len(proofs) == 0 {
		return nil, nil
	}
	rank := func(w finding.Witness) int {
		if i := slices.Index(about, w.Kind); i >= 0 {
			return i
		}
		if w.Kind == "" {
			return len(about)
		}
		i := slices.IndexFunc(finding.Kinds(), func(info finding.Info) bool { return info.Kind == w.Kind })
		return len(about) + 1 + i
	}
	sorted := slices.SortedStableFunc(slices.Values(proofs), func(a, b finding.Witness) int { return rank(a) - rank(b) })
	return &sorted[0], sorted[1:]
}
