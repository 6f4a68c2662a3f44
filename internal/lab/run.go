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
	"seckill/internal/lab/stage"
)

// Lab runs experiments in a house of servers.
type Lab struct {
	house *stage.House
	set   Set
}

// New returns a lab for the experiments of a set.
func New(house *stage.House, set Set) (*Lab, error) {
	if err := set.Validate(); err != nil {
		return nil, err
	}
	return &Lab{house: house, set: set}, nil
}

// Run plays an experiment. What went wrong with the run itself, or keeps it from
// being one, stands in the result.
func (l *Lab) Run(ctx context.Context, e *Experiment) finding.Result {
	return l.play(ctx, e, e)
}

// Swap plays an experiment with its partner's setup, and judges it by the
// experiment's own expectation: it must not come out as expected.
func (l *Lab) Swap(ctx context.Context, e *Experiment) finding.Result {
	partner, err := l.set.Find(e.Partner)
	if err != nil {
		return finding.Result{ID: e.ID, Failed: err.Error()}
	}
	return l.play(ctx, e, partner)
}

// limit is how long an experiment may take, most of which is for servers that start.
const limit = 2 * time.Minute

// play plays an experiment with the setup of another, or its own, on the servers that
// the other needs.
func (l *Lab) play(ctx context.Context, e, of *Experiment) finding.Result {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	options := l.house.Options()
	p := newPlay(e, finding.Result{
		ID: e.ID, Title: e.Title, Group: e.Group, Lock: of.Lock(), Expect: e.Expect,
		About: e.About, Seed: options.Seed, Command: strings.Join(append([]string{e.Command()}, flags(options)...), " "),
	})
	if of != e {
		p.result.SetupOf = of.ID
		p.result.Command += " --swap"
	}
	if p.result.About == nil {
		p.result.About = slices.Collect(kinds())
	}
	skipped, err := l.house.Play(ctx, e.ID, of.Needs, func(s *stage.Stage) {
		p.Stage = s
		e.Scene(p, of.Setup)
	})
	switch {
	case err != nil:
		p.result.Failed = err.Error()
	case skipped != "":
		p.result.Skipped = skipped
	default:
		p.result = p.verdict()
	}
	if p.Stage != nil {
		p.result.Engine = p.Engine()
	}
	p.result.DurationMS = time.Since(began).Milliseconds()
	return p.result
}

// flags are those of lab run that say what is not the default.
func flags(o stage.Options) (given []string) {
	usual := stage.Defaults()
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

func none() map[finding.Kind]int {
	anomalies := map[finding.Kind]int{}
	for kind := range kinds() {
		anomalies[kind] = 0
	}
	return anomalies
}

func kinds() func(func(finding.Kind) bool) {
	return func(yield func(finding.Kind) bool) {
		for _, info := range finding.Kinds() {
			if !yield(info.Kind) {
				return
			}
		}
	}
}

// sideBySide is how many quiet experiments run at once: they mostly wait.
const sideBySide = 4

// RunAll plays experiments, the quiet ones side by side and then the others one by
// one, and tells each result as soon as it is there, from one goroutine at a time.
// It returns them in the order in which they were asked for; those that ctx cut off
// are left out, and its error is returned.
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
		quiet.SetLimit(sideBySide)
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

// Choose finds experiments by their ids; "all" is all of them. An id that there is
// not is [ErrNoExperiment], with those that come near.
func (s Set) Choose(ids []string) ([]*Experiment, error) {
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
			errs = append(errs, s.hint(id, err))
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

// hint names the experiments that share a word with id.
func (s Set) hint(id string, err error) error {
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
