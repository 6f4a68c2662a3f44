package explore

import (
	"cmp"
	"fmt"
	"slices"
)

// option is a step that can be taken, and what it costs.
type option struct {
	Step
	queue *queue // nil: it delivers nothing
	cost  Budget
	parks []*queue // that are held back from now on
}

// options returns what can happen next: what costs nothing first, the likeliest of it at the head.
func (b *bed) options() []option {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []option
	procs := slices.Clone(b.procs)
	if b.current != nil { // the process that is running goes on
		procs = slices.DeleteFunc(procs, func(p *process) bool { return p == b.current })
		procs = append([]*process{b.current}, procs...)
	}
	running := b.running(b.current, nil)
	for _, p := range procs {
		for _, q := range p.waiting() {
			o := option{Step: Step{q.action, p.number, q.conn()}, queue: q}
			if p != b.current {
				o.parks = running
			}
			if older := b.running(p, q); len(older) > 0 {
				o.parks = append(slices.Clone(o.parks), older...)
			}
			all = append(all, o)
		}
		if p.paused {
			all = append(all, option{Step: Step{Action: Resume, On: p.number}})
		}
	}
	if i := slices.IndexFunc(b.procs, func(p *process) bool { return !p.started }); i >= 0 { // they are alike: only the next one
		all = append(all, option{Step: Step{Action: Begin, On: i + 1}, parks: running})
	}
	if !b.quiet && b.now() < longest && slices.ContainsFunc(b.procs, (*process).atWork) {
		var parks []*queue
		for _, p := range b.procs {
			parks = append(parks, b.running(p, nil)...)
		}
		all = append(all, option{Step: Step{Action: Time}, parks: parks})
	}
	for i := range all {
		all[i].cost[Preemption] = processes(all[i].parks)
	}
	slices.SortStableFunc(all, func(x, y option) int { return cmp.Compare(x.rank(), y.rank()) })
	return append(all, b.adversities()...)
}

// rank orders the options: those that cost more come later, what was held back and time come after the others.
func (o option) rank() int {
	r := 10 * o.cost.Total()
	switch {
	case o.queue != nil && o.queue.slow:
		r += 2
	case o.Action == Time:
		r += 3
	case o.Action == Begin:
		r++
	case o.Action == Resume:
		r += 4
	}
	return r
}

// running returns what a process would do next without being held back: all of it, or what is older than a queue's.
func (b *bed) running(p *process, than *queue) []*queue {
	if p == nil {
		return nil
	}
	var all []*queue
	for _, q := range p.waiting() {
		if !q.slow && q != than && (than == nil || q.items[0].seq < than.items[0].seq) {
			all = append(all, q)
		}
	}
	return all
}

func processes(queues []*queue) int {
	seen := map[*process]bool{}
	for _, q := range queues {
		seen[q.proc] = true
	}
	return len(seen)
}

// adversities returns the faults that the budget still allows.
func (b *bed) adversities() []option {
	var all []option
	add := func(kind Adversity, step Step) {
		if b.spent[kind] < b.config.Budget[kind] {
			var cost Budget
			cost[kind] = 1
			all = append(all, option{Step: step, cost: cost})
		}
	}
	for _, p := range b.procs {
		if !p.started || p.finished || p.dead {
			continue
		}
		if !p.paused {
			add(Pausing, Step{Action: Pause, On: p.number})
		}
		add(Killing, Step{Action: Kill, On: p.number})
		for _, w := range p.wires {
			if !w.dead && !w.clientClosed && (w.subscribed || len(w.requests.items)+len(w.replies.items) > 0) {
				add(Cutting, Step{Cut, p.number, w.number})
			}
		}
	}
	for _, n := range b.nodes {
		if !b.procs[0].started {
			break
		}
		add(Restarting, Step{Action: Restart, On: n.number})
		if len(n.keys()) > 0 {
			add(Jumping, Step{Action: Jump, On: n.number})
		}
	}
	return all
}

// find returns the option that a step of a schedule means.
func (b *bed) find(s Step) (option, error) {
	var of *option
	all := b.options()
	for i := range all {
		o := &all[i]
		if o.Action != s.Action || o.On != s.On || s.Conn != 0 && o.Conn != s.Conn {
			continue
		}
		if of == nil || o.queue != nil && o.queue.items[0].seq < of.queue.items[0].seq {
			of = o
		}
	}
	if of == nil {
		return option{}, fmt.Errorf("%w: step %d, %s, is not possible then", ErrSchedule, len(b.steps)+1, s)
	}
	return *of, nil
}
