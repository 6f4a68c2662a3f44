package explore

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lab/finding"
	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
	"seckill/internal/simulate"
)

// Limits of a run.
const (
	MaxBuyers = 4
	MaxSteps  = 200
)

// Config says what is explored.
type Config struct {
	// Lock is a mechanism of the catalogue that keeps its locks in Redis; with Open, the name of a lock of one's own.
	Lock string
	// Buyers is the number of processes, each with one buyer. 0: 2.
	Buyers int
	// Budget is how many adversities a schedule may have of each kind, and Most how many in all. 0: their total.
	Budget Budget
	Most   int
	// For bounds the time that the search takes. 0: until everything within the budget was tried.
	For time.Duration
	// Until ends the search with the shortest schedule of this anomaly. "": with the budget.
	Until finding.Kind
	// Mechanism describes the lock of Open. For one of the catalogue it comes from there.
	Mechanism lock.Mechanism
	// Open opens the lock of one process, on clients of the servers. nil: the one of the catalogue.
	Open func(clients []*redis.Client) (lock.Locker, func(), error)
	// rewrite changes the source of each script on its way to a server; nil: it stays. Tests put in faults.
	rewrite func(source string) string
	// Progress is called after each level, and at most once a second.
	Progress func(Progress)
}

// Progress is how far a search has come.
type Progress struct {
	Level      int // adversities of the schedules that are tried
	Executions int
	States     int
	Waiting    int // beginnings of schedules that are still to be tried
}

// DefaultBudget is enough for every failure that the documents describe on one server.
func DefaultBudget() Budget {
	return Budget{Preemption: 2, Expiry: 2, Pausing: 1, Killing: 1, Cutting: 1}
}

// ErrUnsupported means that a lock cannot be explored.
var ErrUnsupported = errors.New("explore: this lock cannot be explored")

func (c Config) withDefaults() (Config, error) {
	if c.Buyers == 0 {
		c.Buyers = 2
	}
	if c.Buyers < 1 || c.Buyers > MaxBuyers {
		return c, fmt.Errorf("explore: %d buyers; 1 to %d", c.Buyers, MaxBuyers)
	}
	if c.Most == 0 {
		c.Most = c.Budget.Total()
	}
	if c.Open != nil {
		return c, nil
	}
	m, err := lock.Lookup(c.Lock)
	if err != nil {
		return c, err
	}
	if m.Store != lock.InRedis && m.Store != lock.InNodes {
		return c, fmt.Errorf("%w: %s keeps its locks in %s; only those in Redis run in a bubble of time", ErrUnsupported, c.Lock, m.Store)
	}
	c.Mechanism = m
	c.Open = func(clients []*redis.Client) (lock.Locker, func(), error) { return openMechanism(m, clients) }
	return c, nil
}

// nodes is the number of servers that a lock needs.
func (c Config) nodes(m lock.Mechanism) int {
	if m.Store == lock.InNodes {
		return 3
	}
	return 1
}

func openMechanism(m lock.Mechanism, clients []*redis.Client) (lock.Locker, func(), error) {
	var servers lockers.Servers
	if m.Store == lock.InNodes {
		for _, c := range clients {
			servers.Nodes = append(servers.Nodes, c)
		}
	} else {
		servers.Redis = clients[0]
	}
	half := func(n time.Duration) time.Duration { return n / 2 }
	set, err := lockers.Open(servers, lockers.Config{
		Only: m.Name, Watchdog: lease, Poll: lock.Polling{Every: pollEvery, Jitter: half},
	})
	if err != nil {
		return nil, nil, err
	}
	l, err := set.Locker(m.Name)
	if err != nil {
		return nil, nil, errors.Join(err, set.Close())
	}
	return l, func() {
		_ = set.Close()
		for _, c := range clients {
			_ = c.Close()
		}
	}, nil
}

// Counterexample is the shortest schedule that shows an anomaly: of those with the fewest adversities.
type Counterexample struct {
	Kind     finding.Kind `json:"kind"`
	Schedule Schedule     `json:"schedule"`
	Spent    Budget       `json:"spent"`
}

// Result is what a search has found, and what it covers.
type Result struct {
	Lock   string `json:"lock"`
	Buyers int    `json:"buyers"`
	Budget Budget `json:"budget"`
	// Complete is up to how many adversities all schedules within the budget were tried; -1: not even those without any.
	Complete int `json:"complete"`
	// Exhausted says that all schedules within the budget were tried.
	Exhausted  bool `json:"exhausted"`
	Executions int  `json:"executions"`
	States     int  `json:"states"`
	// Diverged counts the executions in which a step was not possible that had been: the lock did not behave as before.
	Diverged int              `json:"diverged"`
	Took     time.Duration    `json:"took_ns"`
	Found    []Counterexample `json:"found"`
}

// PerSecond is the number of executions per second.
func (r Result) PerSecond() float64 {
	if r.Took <= 0 {
		return 0
	}
	return float64(r.Executions) / r.Took.Seconds()
}

// Run explores. It returns what it has found so far when ctx ends, with its error.
func Run(ctx context.Context, c Config) (Result, error) {
	c, err := c.withDefaults()
	if err != nil {
		return Result{}, err
	}
	s := search{config: c, seen: map[string][]visit{}, best: map[finding.Kind]*candidate{}}
	err = s.run(ctx)
	return s.result(), err
}

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
	kind  finding.Kind
	steps []Step
	spent Budget
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
}

// abreast is how many executions run side by side. The result does not depend on the number of processors.
const abreast = 4

func (s *search) run(ctx context.Context) error {
	s.began = time.Now()
	s.complete = -1
	defer func() { s.took = time.Since(s.began) }()
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // an execution leaves nothing behind
	heap.Push(&s.agenda, &beginning{})
	level, told := 0, s.began
	for len(s.agenda) > 0 {
		if next := s.agenda[0]; next.level > level {
			s.complete = level
			if level = next.level; level > s.config.Most {
				return nil
			}
		}
		if s.config.Progress != nil && time.Since(told) > time.Second {
			told = time.Now()
			s.config.Progress(Progress{level, s.executions, len(s.seen), len(s.agenda)})
		}
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
	var running sync.WaitGroup
	for i, from := range batch {
		running.Go(func() {
			simulate.Bubble(func(t *testing.T) { traces[i] = s.execute(t, from) })
		})
	}
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return traces, nil
	case <-time.After(stuckAfter):
	}
	var stuck []string
	for _, from := range batch {
		stuck = append(stuck, Schedule{s.config.Lock, s.config.Buyers, from.steps()}.String())
	}
	return nil, fmt.Errorf("explore: stuck for %v after one of %s", stuckAfter, strings.Join(stuck, ", "))
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
	for _, f := range b.findings() {
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

func (s *search) result() Result {
	r := Result{
		Lock: s.config.Lock, Buyers: s.config.Buyers, Budget: s.config.Budget, Complete: s.complete, Exhausted: s.exhausted,
		Executions: s.executions, States: len(s.seen), Diverged: s.diverged, Took: s.took,
	}
	for kind, c := range s.best {
		r.Found = append(r.Found, Counterexample{kind, Schedule{s.config.Lock, s.config.Buyers, c.steps}, c.spent})
	}
	slices.SortFunc(r.Found, func(x, y Counterexample) int {
		return cmp.Or(cmp.Compare(x.Spent.Total(), y.Spent.Total()), cmp.Compare(len(x.Schedule.Steps), len(y.Schedule.Steps)), cmp.Compare(x.Kind, y.Kind))
	})
	return r
}
