package explore

import (
	"context"
	"fmt"
	"hash"
	"hash/fnv"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/eventlog"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lock"
	"seckill/internal/simulate"
)

// The times of a run. They are virtual, and so cost nothing, except on a real server.
const (
	// lease is shorter than the driver's timeout of 3 s, so that a process may lose the lock while it waits for a reply.
	lease = 2 * time.Second
	// pollEvery is between two attempts of a waiter that polls. There is one such attempt in a lease.
	pollEvery = lease * 6 / 10
	// longest is the virtual time after which a schedule has no step of time any more.
	longest = 3 * lease
	// horizon is how long nothing may happen until nothing more happens.
	horizon = time.Minute
)

// Lease is the one that buyers ask for, and that a watchdog renews.
const Lease = lease

// key is the lock that the buyers want.
const key = "seat"

// bed is one execution: processes and servers, whose every message waits for a step.
type bed struct {
	config    Config
	mechanism lock.Mechanism
	place     place
	began     time.Time
	nodes     []*node
	procs     []*process
	watcher   lock.Locker // asks the servers past the schedule

	mu       sync.Mutex
	open     bool // messages pass by themselves
	moves    int  // how often something has moved
	seq      int
	activity chan struct{} // something happened since the last receive

	current *process // whose step was the last
	quiet   bool     // time has gone on and nothing came of it
	spent   Budget
	steps   []taken
	events  []happened
	samples []judge.Sample // At is the number of the step
	stored  string         // what the servers held after the last step
	value   lock.Owner     // that is stored for the lock
	taker   lock.Owner     // the process that has stored it
	sampled string         // the same with the ends of the keys
	found   []Violation    // that are seen while it runs
	unwoken bool           // the lock is free, and somebody waits for it
	lastAt  time.Duration  // of the step before
	deaths  []moment
	pauses  []moment
	faults  []fault

	stock, version int64
	token          uint64 // the newest that wrote
}

// taken is a step that was taken, and when in virtual time.
type taken struct {
	Step
	at    time.Duration
	says  i18n.Text
	spent Budget // up to this step
}

// happened is an event after so many steps.
type happened struct {
	eventlog.Event
	step int
}

// moment is a fault of a process: from one step to another, or to the end.
type moment struct {
	proc     *process
	from, to int
}

type fault struct {
	step int
	what Step
}

// newBed starts processes on the servers of a place. What is to be closed later it gives to t.
func newBed(t cleaner, c Config, in place) (*bed, error) {
	b := &bed{
		config: c, mechanism: c.Mechanism, place: in, began: time.Now(), activity: make(chan struct{}, 1),
		open: true, stock: int64(c.Buyers),
	}
	for i, one := range in.servers {
		b.nodes = append(b.nodes, &node{i + 1, one})
	}
	watcher, closeWatcher, err := c.Open(b.clients(func(_ *process, n *node) (net.Conn, error) { return n.dial() }, nil))
	if err != nil {
		return nil, err
	}
	t.Cleanup(closeWatcher)
	b.watcher = watcher
	for i := range c.Buyers {
		p, err := b.newProcess(i + 1)
		if err != nil {
			return nil, err
		}
		t.Cleanup(p.close)
		b.procs = append(b.procs, p)
	}
	b.warmUp()
	return b, nil
}

// clients returns a client of each server. dial makes their connections.
func (b *bed) clients(dial func(*process, *node) (net.Conn, error), p *process) []*redis.Client {
	all := make([]*redis.Client, len(b.nodes))
	for i, n := range b.nodes {
		o := simulate.ClientOptions(func(context.Context, string, string) (net.Conn, error) { return dial(p, n) })
		o.Addr = fmt.Sprintf("127.0.0.1:%d", n.number)
		o.PoolSize, o.ReadBufferSize = 50, 512 // made thousands of times a second
		o.WriteBufferSize = 16 << 10           // a script is one write: it is read, and changed, as a whole
		all[i] = redis.NewClient(o)
	}
	return all
}

// warmUp makes connections and loads scripts, so that a schedule has the steps of the lock alone.
func (b *bed) warmUp() {
	for _, p := range b.procs {
		if held, err := p.locker.Acquire(context.Background(), "warm", lock.Options{TTL: b.ttl()}); err == nil {
			_ = held.Release(context.Background())
		}
	}
	b.settle()
	for _, n := range b.nodes {
		n.flush()
	}
	b.mu.Lock()
	b.open = false
	b.mu.Unlock()
	b.sample()
}

// ttl is the lease that a buyer asks for; 0: the mechanism's own.
func (b *bed) ttl() time.Duration {
	if b.mechanism.Ends == lock.EndsAfterLease {
		return lease
	}
	return 0
}

// patience is how long a buyer waits for the lock: longer than a dead holder's lease. Where an attempt has a dozen messages,
// because the lock is on several nodes, a buyer tries once.
func (b *bed) patience() time.Duration {
	if len(b.nodes) > 1 {
		return 0
	}
	return lease * 14 / 10
}

// notice says that a process has done something. While it is paused it does nothing, whatever its timers say. The mutex is
// held.
func (b *bed) notice(p *process) {
	b.moves++
	if p.paused {
		return
	}
	select {
	case b.activity <- struct{}{}:
	default:
	}
}

// settle returns when nothing moves, with everything that was written in its queue.
func (b *bed) settle() {
	for moving := true; moving; {
		b.place.rest(b)
		moving = false
		b.mu.Lock()
		for _, p := range b.procs {
			for _, w := range slices.Concat(p.wires, p.dialled) {
				moving = w.collect() || moving
			}
		}
		b.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.procs {
		p.numberWires()
		for _, q := range p.queues {
			for i := range q.items {
				if one := &q.items[i]; one.seq == 0 {
					b.seq++
					one.seq = b.seq
					p.remember(b, q, one.data)
				}
			}
		}
	}
}

// take carries out a step and waits until nothing moves.
func (b *bed) take(o option) {
	b.mu.Lock()
	b.steps = append(b.steps, taken{Step: b.short(o), at: b.now(), says: b.says(o)})
	for _, q := range o.parks {
		q.slow = true
	}
	b.mu.Unlock()
	b.spent = b.spent.plus(o.cost)
	b.quiet = false
	var p *process
	if o.On > 0 && o.Action != Restart && o.Action != Jump {
		p = b.procs[o.On-1]
	}
	switch o.Action {
	case Begin:
		p.begin(b)
	case Request, Reply, Work:
		b.deliver(o.queue)
	case Time:
		b.pass()
	case Pause:
		b.pause(p, true)
		b.pauses = append(b.pauses, moment{p, len(b.steps), 0})
	case Resume:
		b.pause(p, false)
		for i := range b.pauses {
			if b.pauses[i].proc == p && b.pauses[i].to == 0 {
				b.pauses[i].to = len(b.steps)
			}
		}
	case Kill:
		p.die(b)
		b.deaths = append(b.deaths, moment{p, len(b.steps), 0})
	case Cut:
		b.mu.Lock()
		p.wires[o.Conn-1].breakDown()
		b.mu.Unlock()
	case Restart:
		b.nodes[o.On-1].restart()
	case Jump:
		b.nodes[o.On-1].jump()
	}
	switch o.Action {
	case Begin, Request, Reply, Work:
		b.current = p
	case Time, Pause, Kill:
		if o.Action == Time || b.current == p {
			b.current = nil
		}
	case Restart, Jump, Cut:
		b.faults = append(b.faults, fault{len(b.steps), o.Step})
	}
	if p != nil && o.Action != Request { // a process knows nothing of what reaches a server
		p.remember(b, &queue{action: o.Action, proc: p}, nil)
	}
	b.settle()
	b.sample()
	b.steps[len(b.steps)-1].spent = b.spent
	b.look()
}

func (b *bed) pause(p *process, paused bool) {
	b.mu.Lock()
	p.paused = paused
	b.mu.Unlock()
}

// spentUntil is what the first n steps have cost.
func (b *bed) spentUntil(n int) Budget {
	if n == 0 {
		return Budget{}
	}
	return b.steps[n-1].spent
}

// short is a step without its connection, if it is the one that is meant without.
func (b *bed) short(o option) Step {
	if o.queue == nil {
		return o.Step
	}
	for _, q := range o.queue.proc.waiting() {
		if q.action == o.Action {
			if q == o.queue {
				return Step{Action: o.Action, On: o.On}
			}
			break
		}
	}
	return o.Step
}

// deliver lets what is first in a queue arrive.
func (b *bed) deliver(q *queue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := q.items[0]
	if q.items = q.items[1:]; len(q.items) == 0 {
		q.slow = false
	}
	switch w := q.wire; q.action {
	case Request:
		_, _ = w.forward(false, first.data)
		if w.clientClosed && len(q.items) == 0 {
			_ = w.toServer.Close()
		}
	case Reply:
		q.proc.remember(b, q, first.data)
		_, _ = w.forward(true, first.data)
	case Work:
		q.proc.gate <- struct{}{}
	}
}

// pass lets time go on until something happens or a key ends.
func (b *bed) pass() {
	select {
	case <-b.activity:
	default:
	}
	next := horizon
	for _, n := range b.nodes {
		for _, left := range n.keys() {
			if left > 0 {
				next = min(next, left)
			}
		}
	}
	before := b.eventCount()
	timer := time.NewTimer(next)
	defer timer.Stop()
	select {
	case <-b.activity:
	case <-timer.C:
		b.quiet = next == horizon && b.eventCount() == before
	case <-b.place.stop:
	}
	if b.place.instant > 0 {
		time.Sleep(b.place.instant)
	}
	b.settle()
	ended := b.store() != b.stored // nothing reached a server meanwhile
	if ended {
		b.spent[Expiry]++
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := &b.steps[len(b.steps)-1]
	now.says = passed(b.now()-now.at, ended)
	now.at = b.now()
}

func (b *bed) eventCount() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.events)
}

func (b *bed) now() time.Duration { return time.Since(b.began) }

// end lets everything go its way until all goroutines have ended.
func (b *bed) end() {
	b.mu.Lock()
	b.open = true
	for _, p := range b.procs {
		p.paused = false
		for _, w := range slices.Concat(p.wires, p.dialled) {
			for _, q := range []*queue{w.requests, w.replies} {
				for _, one := range q.items {
					_, _ = w.forward(q.action == Reply, one.data)
				}
				q.drop()
			}
		}
	}
	b.mu.Unlock()
	for _, p := range b.procs {
		p.cancel()
	}
	b.place.drain(b)
}

// newHash is of a process' memory.
func newHash() hash.Hash { return fnv.New128a() }
