package lockjudge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
)

// Options say what is judged, and on what.
type Options struct {
	// Command starts a process of the lock, which speaks the protocol of package wire.
	Command []string
	// Redis is the address of a server that nobody else uses. Its first [Databases] databases are emptied.
	Redis string
	// Only are the behaviours to try; none: all.
	Only []locktest.Behaviour
	// Except are behaviours that are not tried, and with them no comforts; nil: all are.
	Except []locktest.Behaviour
	// Progress is called after each behaviour. It may be nil.
	Progress func(done, of int)
}

// Databases is how many databases of the server are used, one for each trial at a time.
const Databases = 4

// Judged is the result of one behaviour.
type Judged struct {
	Grade     Grade
	Behaviour locktest.Behaviour
	// Broken is what was seen of a behaviour that does not hold; "" if it held.
	Broken string
	// Untried is why it could not be tried.
	Untried string
	// LeftOut says that the lock does not promise it.
	LeftOut bool
	// History are the last events before it broke, at most ten.
	History []Event
}

// judgeLimit ends the judgement of a lock that hangs. What was not tried by then is said as such.
const judgeLimit = 90 * time.Second

// watchdog is the lease that the lock is asked to renew.
const watchdog = 900 * time.Millisecond

// Broke reports whether it was seen not to hold.
func (j Judged) Broke() bool { return j.Untried == "" && j.Broken != "" }

// Counts reports whether it breaks a promise: a comfort is one that no lock has to make.
func (j Judged) Counts() bool { return j.Broke() && j.Grade < Comfort && !j.LeftOut }

// Judge tries all behaviours, and returns them with the gravest first. A lock says of itself which of them it leaves
// out; they are tried all the same, and what breaks is said.
func Judge(ctx context.Context, o Options) ([]Judged, error) {
	opened, err := canOpen(ctx, o)
	if err != nil {
		return nil, err
	}
	renewed := opened.renewed
	asked := asked(o.Only)
	if o.Except != nil {
		asked = slices.DeleteFunc(asked, func(g graded) bool { return g.grade == Comfort || slices.Contains(o.Except, g.behaviour) })
	}
	parent := ctx
	ctx, cancel := context.WithTimeout(parent, judgeLimit)
	defer cancel()
	results := make([]Judged, len(asked))
	databases := make(chan int, Databases)
	for n := range Databases {
		databases <- n
	}
	var done sync.Mutex
	finished := 0
	var trials errgroup.Group
	trials.SetLimit(Databases)
	for i, g := range asked {
		trials.Go(func() error {
			n := <-databases
			defer func() { databases <- n }()
			results[i] = judgeOne(ctx, o, renewed, g, n)
			results[i].LeftOut = slices.Contains(opened.leavesOut, string(g.behaviour))
			done.Lock()
			defer done.Unlock()
			if finished++; o.Progress != nil {
				o.Progress(finished, len(asked))
			}
			return nil
		})
	}
	_ = trials.Wait() // they return nothing
	return results, parent.Err()
}

// asked are the behaviours to try.
func asked(only []locktest.Behaviour) (some []graded) {
	for _, g := range all() {
		wanted := len(only) == 0
		for _, name := range only {
			wanted = wanted || g.behaviour == name
		}
		if wanted {
			some = append(some, g)
		}
	}
	return some
}

// canOpen starts a process once, so that a program that does not work is said as such, and returns it, ended: it has
// said what the lock renews and leaves out. Later processes are not asked for that: to start one of Python or Node
// takes longer than most trials.
func canOpen(ctx context.Context, o Options) (*program, error) {
	if len(o.Command) == 0 {
		return nil, errors.New("lockjudge: there is no command to start the lock with")
	}
	p, err := start(ctx, o.Command, url(o.Redis, 0), watchdog)
	if err != nil {
		return nil, err
	}
	p.kill()
	for _, name := range p.leavesOut {
		if !IsBehaviour(locktest.Behaviour(name)) {
			return nil, fmt.Errorf("lockjudge: the lock leaves out %q, and no behaviour is called that", name)
		}
	}
	return p, nil
}

func url(addr string, database int) string { return fmt.Sprintf("redis://%s/%d", addr, database) }

// confirmations is how often a behaviour has to break, one time after the other: on a busy machine a limit may be
// missed once. A comfort decides nothing.
func (g Grade) confirmations() int {
	if g == Comfort {
		return 1
	}
	return 2
}

func judgeOne(ctx context.Context, o Options, renewed time.Duration, g graded, database int) Judged {
	result := Judged{Grade: g.grade, Behaviour: g.behaviour}
	if g.watchdog && renewed == 0 {
		result.Untried = "the lock has no watchdog"
		return result
	}
	for range g.grade.confirmations() {
		if ctx.Err() != nil {
			result.Broken, result.Untried = "", "there was no time left"
			return result
		}
		h := newHistory()
		err := try(ctx, o, renewed, g, database, h)
		what, at, violated := locktest.Violated(err)
		switch {
		case err == nil:
			return Judged{Grade: g.grade, Behaviour: g.behaviour}
		case !violated:
			if result.Untried = err.Error(); g.reentry && errors.Is(err, lock.ErrNotAcquired) {
				result.Untried = "the lock has no re-entry"
			}
			return result
		}
		result.Broken, result.History = what, h.before(at)
	}
	return result
}

// try makes one trial, in a database of its own.
func try(ctx context.Context, o Options, renewed time.Duration, g graded, database int, h *history) error {
	t := &trialTB{ctx: ctx}
	defer t.end()
	client := redis.NewClient(&redis.Options{Addr: o.Redis, DB: database})
	t.Cleanup(func() { _ = client.Close() })
	if err := client.FlushDB(ctx).Err(); err != nil {
		return err
	}
	processes := &processes{trialTB: t, options: o, database: database, history: h}
	subject := locktest.Subject{
		Name: "judged", Remote: true, Renewed: renewed, Process: processes.locker,
		Store: (&store{client: client, history: h}).store(),
	}
	err := locktest.Observe(t, g.behaviour, subject)
	if failed := t.failure(); failed != nil {
		err = failed
	}
	return err
}

// processes are those of one trial.
type processes struct {
	*trialTB
	options  Options
	database int
	history  *history

	mu sync.Mutex
	n  int
}

// start starts another process, perhaps behind a network.
func (ps *processes) start(network *locktest.Network) (*locker, error) {
	ps.mu.Lock()
	ps.n++
	name := fmt.Sprintf("process %d", ps.n)
	ps.mu.Unlock()
	addr := ps.options.Redis
	if network != nil {
		f, err := newForwarder(ps.ctx, network, addr)
		if err != nil {
			return nil, err
		}
		ps.Cleanup(f.close)
		addr = f.addr()
		network.Notice(func(what string) { ps.history.note(name, what) })
	}
	l := &locker{name: name, history: ps.history}
	l.begin = func() (*program, error) {
		return start(ps.ctx, ps.options.Command, url(addr, ps.database), watchdog)
	}
	ps.Cleanup(l.kill)
	return l, nil
}

// locker is the Process of a subject.
func (ps *processes) locker(_ testing.TB, network *locktest.Network) lock.Locker {
	l, err := ps.start(network)
	if err == nil {
		_, err = l.running()
	}
	if err != nil {
		ps.Fatalf("%w", err)
	}
	return l
}
