package explore

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"seckill/internal/lab/finding"
)

// Sampled says what was sampled beyond the search, and with what chance a failure was hit.
type Sampled struct {
	Executions int    `json:"executions"`
	Seed       uint64 `json:"seed"`
	// Steps is how many steps the longest execution without an adversity has: within so many of them the adversities of the
	// others come. Choices is how many of them were possible at most at one step.
	Steps   int `json:"steps"`
	Choices int `json:"choices"`
	// Adversities is how many each execution may have, besides keys that end.
	Adversities int `json:"adversities"`
	// Chance is a lower bound for a failure that takes at most so many.
	Chance float64 `json:"chance"`
}

// estimate sets the chance after the executions so far. It is the bound of PCT (Burckhardt et al., ASPLOS 2010): an execution
// hits a failure with at least 1/buyers, for their order, times 1/(steps × choices × 4) for each adversity: at which step,
// which one, whether time goes on before what it holds back, and that it was not kept for a holder.
func (a *Sampled) estimate(buyers int) {
	one := 1 / float64(buyers)
	for range a.Adversities {
		one /= float64(4 * a.Steps * max(a.Choices, 1))
	}
	a.Chance = -math.Expm1(float64(a.Executions) * math.Log1p(-one))
}

// affords reports whether a schedule may have so many adversities.
func (c Config) affords(b Budget) bool { return b.within(c.Budget) && b.Total() <= c.Most }

// sample plays schedules at random, and shrinks those that show what the search has not found.
func (s *search) sample(ctx context.Context) error {
	points := min(s.config.Most, s.config.Budget.Total()-s.config.Budget[Expiry]) // keys end by themselves
	s.sampled = &Sampled{Seed: s.config.Seed, Adversities: points}
	hits := map[finding.Kind]*candidate{}
	for s.sampled.Executions < s.config.Sample && hits[s.config.Until] == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.tell(s.config.Most)
		walks := make([]*walk, min(abreast, s.config.Sample-s.sampled.Executions))
		for i := range walks {
			walks[i] = newWalk(s.config, s.sampled.Executions+i, s.sampled.Steps, points)
		}
		err := s.sideBySide(len(walks), func(t *testing.T, i int) { walks[i].err = walks[i].walk(t) }, func(i int) string {
			return fmt.Sprintf("the start of sample %d with the seed %d", s.sampled.Executions+i+1, s.config.Seed)
		})
		if err != nil {
			return err
		}
		for _, w := range walks {
			if w.err != nil {
				return w.err
			}
			s.sampled.Executions++
			if w.plain {
				s.sampled.Steps = max(s.sampled.Steps, w.length)
			}
			s.sampled.Choices = max(s.sampled.Choices, w.choices)
			for _, c := range w.found {
				if s.best[c.kind] == nil && s.config.affords(c.spent) && (hits[c.kind] == nil || c.before(hits[c.kind])) {
					hits[c.kind] = &c
				}
			}
		}
	}
	s.sampled.estimate(s.config.Buyers)
	for kind, c := range hits {
		if err := s.shrink(ctx, c); err != nil {
			return err
		}
		c.sampled = true
		s.best[kind] = c
	}
	return nil
}

// walk is one sampled execution. The buyers have random priorities; whoever runs goes on until it has to wait. At random
// steps an adversity is taken, one of those that are possible then. Half of them are failures that are kept until somebody
// holds the lock: that is where failures matter, and it is few of the steps.
type walk struct {
	config          Config
	plain           bool // without adversities
	rand            *rand.Rand
	points          []int           // the steps of the adversities that are still to come, in order
	kept            int             // failures for a holder
	turns           []float64       // the priorities of the buyers
	late            map[any]float64 // those of what is held back: above 0.5 it comes before time goes on
	length, choices int
	found           []candidate
	err             error
}

// newWalk prepares the n-th execution of a seed, with so many points within the first steps. The first few have none.
func newWalk(c Config, n, steps, points int) *walk {
	w := &walk{config: c, plain: n < abreast, rand: rand.New(rand.NewPCG(c.Seed, uint64(n))), late: map[any]float64{}} //nolint:gosec // repeatable
	for range c.Buyers {
		w.turns = append(w.turns, w.rand.Float64())
	}
	for range points {
		if w.plain {
			break
		}
		if c.Budget.Total() > c.Budget[Preemption]+c.Budget[Expiry] && w.rand.IntN(2) == 0 {
			w.kept++
			continue
		}
		w.points = append(w.points, w.rand.IntN(steps))
	}
	slices.Sort(w.points)
	return w
}

func (w *walk) walk(t *testing.T) error {
	in, err := bubble(t, w.config)
	if err != nil {
		return err
	}
	b, err := newBed(t, w.config, in)
	if err != nil {
		return err
	}
	defer b.end()
	for len(b.steps) < MaxSteps && w.config.affords(b.spent) {
		o, ok := w.choose(b)
		if !ok {
			break
		}
		b.take(o)
	}
	w.length, w.found = len(b.steps), b.candidates()
	return nil
}

// choose returns the next step: an adversity, if it is time for one; else what costs nothing and has the highest priority.
func (w *walk) choose(b *bed) (next option, ok bool) {
	var adverse []option
	highest := -1.0
	for _, o := range b.options() {
		if o.cost.Total() == 0 {
			if p := w.priority(b, o); p > highest {
				next, highest, ok = o, p, true
			}
		} else if w.config.affords(b.spent.plus(o.cost)) {
			adverse = append(adverse, o)
		}
	}
	w.choices = max(w.choices, len(adverse))
	failures := slices.DeleteFunc(slices.Clone(adverse), func(o option) bool { return o.cost[Preemption] > 0 })
	switch {
	case w.kept > 0 && b.isHeld() && len(failures) > 0 && w.rand.IntN(2) == 0:
		w.kept--
		adverse = failures
	case len(w.points) > 0 && w.points[0] <= len(b.steps) && len(adverse) > 0:
		w.points = w.points[1:]
	default:
		return next, ok
	}
	next = adverse[w.rand.IntN(len(adverse))]
	for _, q := range next.parks {
		delete(w.late, q)
	}
	return next, true
}

// isHeld reports whether somebody is inside the lock.
func (b *bed) isHeld() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.procs, func(p *process) bool { return p.held != nil })
}

func (w *walk) priority(b *bed, o option) float64 {
	switch {
	case o.Action == Time:
		return 0.5
	case o.Action == Resume:
		return w.held(b.procs[o.On-1])
	case o.queue != nil && o.queue.slow:
		return w.held(o.queue)
	}
	return 1 + w.turns[o.On-1]
}

// held is the priority of a queue that is held back, or of a process that is paused.
func (w *walk) held(what any) float64 {
	if _, ok := w.late[what]; !ok {
		w.late[what] = w.rand.Float64()
	}
	return w.late[what]
}

// shrink leaves out steps of a candidate as long as what remains shows the same with fewer adversities, or with as many and
// fewer steps.
func (s *search) shrink(ctx context.Context, c *candidate) error {
	again, err := s.smaller(ctx, c, [][]Step{c.steps}, func(*candidate) bool { return true })
	if err != nil {
		return err
	}
	if !again {
		s.diverged++
		return nil
	}
	better := func(d *candidate) bool { return d.before(c) }
	for shrunk := true; shrunk; {
		shrunk = false
		for size := len(c.steps) / 2; size > 0; {
			smaller, err := s.smaller(ctx, c, without(c.steps, size), better)
			if err != nil {
				return err
			}
			if shrunk = shrunk || smaller; !smaller {
				size /= 2
			}
		}
		if !shrunk {
			if shrunk, err = s.smaller(ctx, c, earlier(c.steps), better); err != nil {
				return err
			}
		}
	}
	return nil
}

// without returns the steps without some that stand together.
func without(steps []Step, size int) (all [][]Step) {
	for i := 0; i+size <= len(steps); i += max(1, size/2) {
		all = append(all, slices.Concat(steps[:i], steps[i+size:]))
	}
	return all
}

// earlier returns the steps with one failure moved forward: that may make others impossible, which a replay drops.
func earlier(steps []Step) (all [][]Step) {
	for i, step := range steps {
		switch step.Action {
		case Pause, Kill, Cut, Restart, Jump:
			for j := range i {
				all = append(all, slices.Concat(steps[:j], steps[i:i+1], steps[j:i], steps[i+1:]))
			}
		}
	}
	return all
}

// smaller replays schedules, and sets c to the first of them that still shows its anomaly and is better.
func (s *search) smaller(ctx context.Context, c *candidate, tries [][]Step, better func(*candidate) bool) (bool, error) {
	for batch := range slices.Chunk(tries, abreast) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		s.tell(s.config.Most)
		found, errs := make([]*candidate, len(batch)), make([]error, len(batch))
		err := s.sideBySide(len(batch), func(t *testing.T, i int) { found[i], errs[i] = s.replay(t, batch[i], c.kind) }, func(i int) string {
			return Schedule{s.config.Lock, s.config.Buyers, batch[i]}.String()
		})
		if err != nil {
			return false, err
		}
		for i, d := range found {
			if errs[i] != nil {
				return false, errs[i]
			}
			if d != nil && better(d) {
				*c = *d
				return true, nil
			}
		}
	}
	return false, nil
}

// replay plays the steps that are possible, and returns the candidate for an anomaly; nil: it is not there.
func (s *search) replay(t *testing.T, steps []Step, kind finding.Kind) (*candidate, error) {
	in, err := bubble(t, s.config)
	if err != nil {
		return nil, err
	}
	b, err := newBed(t, s.config, in)
	if err != nil {
		return nil, err
	}
	defer b.end()
	for _, step := range steps {
		if o, err := b.find(step); err == nil && s.config.affords(b.spent) {
			b.take(o)
		}
	}
	for _, c := range b.candidates() {
		if c.kind == kind && s.config.affords(c.spent) {
			return &c, nil
		}
	}
	return nil, nil
}
