package explore

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/simulate"
)

// beginning is the beginning of schedules that are to be tried.
type beginning struct {
	before *beginning
	step   Step
	length int
	level  int // its adversities
	order  int
}

func (n *beginning) steps() []Step {
	steps := make([]Step, n.length)
	for ; n.length > 0; n = n.before {
		steps[n.length-1] = n.step
	}
	return steps
}

// canBeat reports whether a schedule that begins so can be a better example.
func (n *beginning) canBeat(c *candidate) bool {
	return cmp.Or(cmp.Compare(n.level, c.spent.Total()), cmp.Compare(n.length, len(c.steps))) < 0
}

// agenda has the beginnings in the order in which they are tried: by adversities, then by length.
type agenda []*beginning

func (a agenda) Len() int      { return len(a) }
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a agenda) Less(i, j int) bool {
	x, y := a[i], a[j]
	switch {
	case x.level != y.level:
		return x.level < y.level
	case x.length != y.length:
		return x.length < y.length
	}
	return x.order < y.order
}
func (a *agenda) Push(x any) { *a = append(*a, x.(*beginning)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}

// visit is what it took to come to a state.
type visit struct {
	spent  Budget
	length int
}

type candidate struct {
	kind    finding.Kind
	steps   []Step
	spent   Budget
	sampled bool
}

type search struct {
	config     Config
	agenda     agenda
	order      int
	seen       map[string][]visit
	best       map[finding.Kind]*candidate
	began      time.Time
	took       time.Duration
	complete   int
	exhausted  bool
	executions int
	diverged   int
	told       time.Time
	sampled    *Sampled // nil: nothing was
}

// tell reports the progress, at most once a second.
func (s *search) tell(level int) {
	if s.config.Progress == nil || time.Since(s.told) < time.Second {
		return
	}
	s.told = time.Now()
	p := Progress{Level: level, Executions: s.executions, States: len(s.seen), Waiting: len(s.agenda)}
	if s.sampled != nil {
		p.Sampled = s.sampled.Executions
	}
	s.config.Progress(p)
}

// abreast is how many executions run side by side. The result does not depend on the number of processors.
const abreast = 4

func (s *search) run(ctx context.Context) error {
	s.began = time.Now()
	s.complete = -1
	defer func() { s.took = time.Since(s.began) }()
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // an execution leaves nothing behind
	heap.Push(&s.agenda, &beginning{})
	level := 0
	for len(s.agenda) > 0 {
		if next := s.agenda[0]; next.level > level {
			s.complete = level
			if level = next.level; level > s.config.Most {
				return nil
			}
		}
		s.tell(level)
		if err := ctx.Err(); err != nil {
			return err
		}
		if best := s.best[s.config.Until]; best != nil && !s.agenda[0].canBeat(best) {
			return nil
		}
		if s.config.For > 0 && time.Since(s.began) > s.config.For {
			return nil
		}
		var batch []*beginning
		for len(batch) < abreast && len(s.agenda) > 0 && s.agenda[0].level == level {
			batch = append(batch, heap.Pop(&s.agenda).(*beginning))
		}
		traces, err := s.executeAll(batch)
		if err != nil {
			return err
		}
		for i, one := range traces {
			if one.err != nil {
				return one.err
			}
			s.merge(batch[i], one)
		}
	}
	s.complete, s.exhausted = s.config.Most, true
	return nil
}

// stuckAfter is the real time after which an execution counts as stuck: it needs milliseconds. A goroutine that waits for
// a mutex stops the time of its bubble.
const stuckAfter = time.Minute

func (s *search) executeAll(batch []*beginning) ([]trace, error) {
	traces := make([]trace, len(batch))
	return traces, s.sideBySide(len(batch), func(t *testing.T, i int) { traces[i] = s.execute(t, batch[i]) }, func(i int) string {
		return Schedule{s.config.Lock, s.config.Buyers, batch[i].steps()}.String()
	})
}

// sideBySide runs n executions. names tells which of them are stuck.
func (s *search) sideBySide(n int, run func(*testing.T, int), names func(int) string) error {
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() {
			simulate.Bubble(func(t *testing.T) { run(t, i) })
		})
	}
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-time.After(stuckAfter):
	}
	var stuck []string
	for i := range n {
		stuck = append(stuck, names(i))
	}
	return fmt.Errorf("explore: stuck for %v after one of %s", stuckAfter, strings.Join(stuck, ", "))
}

// trace is what one execution has passed, from the end of its beginning on.
type trace struct {
	points   []point
	over     *Budget // what the last step of the beginning has cost, if that is more than was known
	diverged bool
	found    []candidate
	err      error
}

// point is a state, and what can happen in it: the first option is what did, if it costs nothing.
type point struct {
	state   string
	spent   Budget
	length  int
	options []option
}

// goesOn reports whether the execution goes on from here.
func (p *point) goesOn() bool { return len(p.options) > 0 && p.options[0].cost.Total() == 0 }

// execute tries one beginning and goes on from there with what costs nothing, until everything has happened or a state
// was seen before. It reads the search and changes nothing of it.
func (s *search) execute(t *testing.T, from *beginning) (tr trace) {
	in, err := bubble(t, s.config)
	if err != nil {
		return trace{err: err}
	}
	b, err := newBed(t, s.config, in)
	if err != nil {
		return trace{err: err}
	}
	defer b.end()
	for _, step := range from.steps() {
		o, err := b.find(step)
		if err != nil {
			return trace{diverged: true}
		}
		b.take(o)
	}
	for len(b.steps) < MaxSteps {
		if b.spent.Total() > from.level { // time went past the end of a key
			tr.over = new(b.spent)
			break
		}
		here := point{state: b.state(), spent: b.spent, length: len(b.steps)}
		if s.visited(here) {
			break
		}
		here.options = b.options()
		tr.points = append(tr.points, here)
		if !here.goesOn() {
			break
		}
		b.take(here.options[0])
	}
	tr.found = b.candidates()
	return tr
}

// merge adds what an execution has passed: what could have happened instead goes on the agenda.
func (s *search) merge(from *beginning, tr trace) {
	s.executions++
	if tr.diverged {
		s.diverged++
		return
	}
	for _, f := range tr.found {
		if old := s.best[f.kind]; old == nil || f.before(old) {
			s.best[f.kind] = &f
		}
	}
	at := from
	for _, here := range tr.points {
		if s.visited(here) {
			return
		}
		s.remember(here)
		for i, o := range here.options {
			if spent := here.spent.plus(o.cost); (i > 0 || !here.goesOn()) && spent.within(s.config.Budget) {
				s.push(&beginning{before: at, step: o.Step, length: at.length + 1, level: spent.Total()})
			}
		}
		if here.goesOn() {
			at = &beginning{before: at, step: here.options[0].Step, length: at.length + 1, level: at.level}
		}
	}
	if tr.over != nil && tr.over.within(s.config.Budget) {
		s.push(&beginning{before: at.before, step: at.step, length: at.length, level: tr.over.Total()})
	}
}

func (s *search) push(n *beginning) {
	s.order++
	n.order = s.order
	heap.Push(&s.agenda, n)
}

// visited reports whether a state was reached before at no higher price.
func (s *search) visited(p point) bool {
	return slices.ContainsFunc(s.seen[p.state], func(v visit) bool { return v.length <= p.length && v.spent.within(p.spent) })
}

func (s *search) remember(p point) {
	s.seen[p.state] = append(slices.DeleteFunc(s.seen[p.state], func(v visit) bool {
		return p.length <= v.length && p.spent.within(v.spent)
	}), visit{p.spent, p.length})
}

// candidates are what a run has shown, each with the steps that it took.
func (b *bed) candidates() []candidate {
	var all []candidate
	for _, f := range b.violations() {
		c := candidate{kind: f.Kind, spent: b.spentUntil(min(f.Step, len(b.steps)))}
		for _, step := range b.steps[:min(f.Step, len(b.steps))] {
			c.steps = append(c.steps, step.Step)
		}
		all = append(all, c)
	}
	return all
}

// before reports whether c is the better example: fewer adversities, then fewer steps.
func (c *candidate) before(d *candidate) bool {
	return cmp.Or(cmp.Compare(c.spent.Total(), d.spent.Total()), cmp.Compare(len(c.steps), len(d.steps))) < 0
}
