package stores

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// run is one execution of several processes. Each process takes one step when the test tells it to.
type run struct {
	mu        sync.Mutex
	atRest    *sync.Cond
	processes []*process
	running   int   // how many processes are neither before a step, nor waiting for another process, nor at their end
	queue     []int // the processes that wait, in the order in which they began to
	abandoned bool
	taken     []string // the steps so far, for a reader
}

// process is a goroutine of a run.
type process struct {
	*run
	number int
	goOn   chan struct{}
	next   string   // the step that it is about to take
	ended  bool     // as it has nothing more to do
	saw    []string // the result of each step: what its further way depends on
}

type processKey struct{}

// processOf returns the process whose context it is; nil outside of a run.
func processOf(ctx context.Context) *process {
	p, _ := ctx.Value(processKey{}).(*process)
	return p
}

// start starts the processes. Each is before its first step when start returns.
func start(ctx context.Context, bodies ...func(ctx context.Context)) *run {
	r := &run{running: len(bodies)}
	r.atRest = sync.NewCond(&r.mu)
	for i := range bodies {
		r.processes = append(r.processes, &process{run: r, number: i, goOn: make(chan struct{}, 1)})
	}
	for i, body := range bodies {
		p := r.processes[i]
		go func() {
			defer p.rest(func() { p.ended = true })
			p.step("begin")
			body(context.WithValue(ctx, processKey{}, p))
		}()
	}
	r.settle()
	return r
}

// rest counts a process as one that no longer runs.
func (p *process) rest(why func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	why()
	p.running--
	p.atRest.Broadcast()
}

// step returns once the process is told to take a step. In a run that was abandoned it ends the process.
func (p *process) step(name string) {
	p.rest(func() { p.next = name })
	p.await()
}

func (p *process) await() {
	<-p.goOn
	p.mu.Lock()
	abandoned := p.abandoned
	if abandoned {
		p.goOn <- struct{}{} // deferred functions take steps too
	}
	p.mu.Unlock()
	if abandoned {
		runtime.Goexit()
	}
}

// wait returns once another process has called wake.
func (p *process) wait() {
	p.rest(func() { p.queue = append(p.queue, p.number) })
	p.await()
}

func (p *process) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = slices.DeleteFunc(p.queue, func(n int) bool { return n == p.number })
	p.running++
	p.goOn <- struct{}{}
}

// note records the result of a step.
func (p *process) note(result string) { p.saw = append(p.saw, result) }

// take has a process take its next step. It does not wait until the step is over.
func (r *run) take(number int) {
	p := r.processes[number]
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken = append(r.taken, fmt.Sprintf("%d %s", number+1, p.next))
	r.running++
	p.goOn <- struct{}{}
}

// settle returns once no process runs.
func (r *run) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.running > 0 {
		r.atRest.Wait()
	}
}

// settleIn is settle for a run in which some processes wait inside a database. The run cannot see those waits, so the
// caller gives their number. settleIn returns false if more processes wait.
func (r *run) settleIn(inDatabase int) bool {
	late := false
	limit := time.AfterFunc(settleLimit, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		late = true
		r.atRest.Broadcast()
	})
	defer limit.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.running > inDatabase && !late {
		r.atRest.Wait()
	}
	return !late
}

// settleLimit only ends the wait for what never happens.
const settleLimit = 20 * time.Second

// ready lists the processes that can take a step.
func (r *run) ready() (ready []int) {
	for _, p := range r.processes {
		if !p.ended && !slices.Contains(r.queue, p.number) {
			ready = append(ready, p.number)
		}
	}
	return ready
}

func (r *run) ended() bool {
	return !slices.ContainsFunc(r.processes, func(p *process) bool { return !p.ended })
}

// abandon ends a run whose rest is of no interest.
func (r *run) abandon() {
	r.mu.Lock()
	r.abandoned = true
	for _, p := range r.processes {
		if !p.ended {
			r.running++
			p.goOn <- struct{}{}
		}
	}
	r.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.ended() {
		r.atRest.Wait()
	}
}

// subject is what is explored.
type subject struct {
	// start begins an execution.
	start func() *run
	// state is what all that is to come depends on, besides what the processes saw.
	state func() string
	// judge returns what is wrong at the end; nil if nothing is.
	judge func(r *run) []string
}

const deadlock = "deadlock"

// ahead is what lies ahead of a state.
type ahead struct {
	interleavings int
	// ready lists the processes that can take the next step; broken has the anomalies for each of them.
	ready  []int
	broken []map[string]counterexample
}

// counterexample is an interleaving that ends with an anomaly. The shortest one has the fewest switches from a process
// that could have gone on, and then the fewest steps.
type counterexample struct {
	switches int
	schedule []int // the number of the process of each step
}

func (c counterexample) shorter(than counterexample) bool {
	return c.switches < than.switches || c.switches == than.switches && len(c.schedule) < len(than.schedule)
}

// add adds a counterexample unless there is a shorter one.
func add(all map[string]counterexample, anomaly string, c counterexample) {
	if best, ok := all[anomaly]; !ok || c.shorter(best) {
		all[anomaly] = c
	}
}

// after returns the shortest counterexamples after a step of a process, -1 for none.
func (a *ahead) after(last int) map[string]counterexample {
	all := map[string]counterexample{}
	for i, broken := range a.broken {
		for anomaly, c := range broken {
			if len(a.ready) > 0 && a.ready[i] != last && slices.Contains(a.ready, last) {
				c.switches++
			}
			add(all, anomaly, c)
		}
	}
	return all
}

// explorer tries every interleaving. What lies ahead of a state is found out once.
type explorer struct {
	subject
	seen map[string]*ahead
}

func explore(s subject) (all *ahead, states int) {
	e := &explorer{s, map[string]*ahead{}}
	return e.from(s.start(), nil), len(e.seen)
}

// from explores what can follow a schedule. r has taken its steps.
func (e *explorer) from(r *run, schedule []int) *ahead {
	key := e.key(r)
	if a := e.seen[key]; a != nil {
		r.abandon()
		return a
	}
	a := &ahead{ready: r.ready()}
	e.seen[key] = a
	if len(a.ready) == 0 {
		a.interleavings = 1
		a.broken = []map[string]counterexample{{}}
		anomalies := []string{deadlock}
		if r.ended() {
			anomalies = e.judge(r)
		}
		for _, anomaly := range anomalies {
			a.broken[0][anomaly] = counterexample{}
		}
		r.abandon()
		return a
	}
	for i, number := range a.ready {
		if i > 0 { // the first one has used up the run
			r = e.again(schedule)
		}
		r.take(number)
		r.settle()
		next := e.from(r, append(slices.Clip(schedule), number))
		a.interleavings += next.interleavings
		broken := next.after(number)
		for anomaly, c := range broken {
			c.schedule = append([]int{number}, c.schedule...)
			broken[anomaly] = c
		}
		a.broken = append(a.broken, broken)
	}
	return a
}

// again repeats an execution up to where a schedule ends.
func (e *explorer) again(schedule []int) *run {
	r := e.start()
	for _, number := range schedule {
		r.take(number)
		r.settle()
	}
	return r
}

func (e *explorer) key(r *run) string {
	var b strings.Builder
	fmt.Fprint(&b, e.state(), r.queue)
	for _, p := range r.processes {
		fmt.Fprintf(&b, "|%s %v ", p.next, p.ended)
		b.WriteString(strings.Join(p.saw, ","))
	}
	return b.String()
}
