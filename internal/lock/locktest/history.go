package locktest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"seckill/internal/lock"
)

// A history ends after historyTime, or when each of its clients has done historyRounds, which keeps it well below ten
// thousand operations.
const (
	historyTime   = 500 * time.Millisecond
	historyRounds = 60
	// turns is how often the lock changes hands before that, one client at a time. On a busy machine historyTime may
	// end after few rounds.
	turns = 24
	// checkLimit is how long the check of a history may take.
	checkLimit = 10 * time.Second
)

// recorder keeps a history. All clients run in this process, whatever process their locker stands for, so the calls and
// returns can be numbered: in virtual time, many happen at one moment.
type recorder struct {
	moments atomic.Int64

	mu  sync.Mutex
	ops []porcupine.Operation
}

// do runs one operation and records it with its input, its output and both moments.
func (r *recorder) do(client int, in input, run func() output) output {
	call := r.moments.Add(1)
	out := run()
	back := r.moments.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, porcupine.Operation{
		ClientId: client, Input: in, Call: call, Output: out, Return: back,
	})
	return out
}

// client is one goroutine of a history, with an owner of its own.
type client struct {
	*trial
	*recorder
	id     int
	owner  lock.Owner
	locker lock.Locker
	random *rand.Rand
	err    error
}

// clients makes n clients, spread over three processes.
func (t *trial) clients(n int) []*client {
	ps := []lock.Locker{t.process(), t.process(), t.process()}
	r := &recorder{}
	owners := lock.NewOwners()
	all := make([]*client, n)
	for i := range all {
		all[i] = &client{
			trial: t, recorder: r, id: i, owner: owners.New(), locker: ps[i%len(ps)],
			random: rand.New(rand.NewPCG(uint64(i), 1)),
		}
	}
	return all
}

// acquire acquires the lease with the number depth of this client, by a try or by a wait.
func (c *client) acquire(depth int, waits bool) (lock.Lease, bool) {
	opts := lock.Options{TTL: c.long}
	in := input{kind: try, client: c.id, lease: 2*c.id + depth}
	if waits {
		in.kind, opts.Wait = wait, c.prompt
	}
	var lease lock.Lease
	out := c.do(c.id, in, func() output {
		var err error
		lease, err = c.trial.acquire(lock.WithOwner(c.ctx, c.owner), c.locker, opts)
		switch {
		case err == nil:
			return output{result: done, token: lease.Token()}
		case errors.Is(err, lock.ErrNotAcquired):
			return output{result: refused}
		}
		c.err = fmt.Errorf("acquiring: %w", err)
		return output{result: failed}
	})
	return lease, out.result == done
}

func (c *client) release(depth int, l lock.Lease) {
	c.do(c.id, input{kind: release, client: c.id, lease: 2*c.id + depth}, func() output {
		err := l.Release(c.ctx)
		switch {
		case err == nil:
			return output{result: done}
		case errors.Is(err, lock.ErrExpired):
			return output{result: expired}
		case errors.Is(err, lock.ErrLost):
			return output{result: lost}
		}
		c.err = fmt.Errorf("releasing: %w", err)
		return output{result: failed}
	})
}

// work takes up to a fifth of a millisecond.
func (c *client) work() { time.Sleep(time.Duration(c.random.IntN(200)) * time.Microsecond) }

// runRounds has every client do rounds until historyTime or historyRounds is reached.
func runRounds(clients []*client, round func(c *client)) {
	end := time.Now().Add(historyTime)
	startTogether(len(clients), func(i int) {
		c := clients[i]
		for n := 0; n < c.rounds() && c.err == nil && time.Now().Before(end); n++ {
			round(c)
		}
	})
}

// rounds is how many rounds a client does at most. In virtual time none is lost to a slow machine.
func (c *client) rounds() int {
	if c.virtual {
		return historyRounds / 5
	}
	return historyRounds
}

// takeTurns has the lock change hands in a fixed order. While the first client holds it, all others try; while a later
// one holds it, two clients of other processes try. This finds errors that do not depend on timing on any machine: a
// lock that excludes nobody, and a lock that is wrong once in twenty grants.
func takeTurns(clients []*client, then func(holder *client)) {
	for turn := range turns {
		i := turn % len(clients)
		holder, others := clients[i], slices.Concat(clients[i+1:], clients[:i])
		if turn > 0 {
			others = others[:2]
		}
		lease, ok := holder.acquire(0, false)
		tryAll(others)
		if then != nil {
			then(holder)
			tryAll(others)
		}
		if ok {
			holder.release(0, lease)
		}
	}
}

// tryAll has the clients try one after the other.
func tryAll(clients []*client) {
	for _, c := range clients {
		if lease, ok := c.acquire(0, false); ok {
			c.release(0, lease)
		}
	}
}

// reenter acquires the lock that c holds once more and releases it.
func reenter(c *client) {
	if lease, ok := c.acquire(1, false); ok {
		c.release(1, lease)
	}
}

func linearizableMutex(t *trial) {
	clients, r := t.clients(12), modelRules{splitVote: t.SplitVote}
	takeTurns(clients, nil)
	t.checkHistory(clients, r)
	runRounds(clients, func(c *client) {
		lease, ok := c.acquire(0, c.random.IntN(2) == 0)
		c.work()
		if ok {
			c.release(0, lease)
		}
	})
	t.checkHistory(clients, r)
}

func linearizableReentrant(t *trial) {
	clients, r := t.clients(9), modelRules{splitVote: t.SplitVote, reenters: true}
	takeTurns(clients, reenter)
	t.checkHistory(clients, r)
	runRounds(clients, func(c *client) {
		lease, ok := c.acquire(0, c.random.IntN(2) == 0)
		if !ok {
			c.work()
			return
		}
		inner, twice := lock.Lease(nil), false
		if c.random.IntN(2) == 0 {
			inner, twice = c.acquire(1, c.random.IntN(2) == 0)
		}
		c.work()
		outerFirst := c.random.IntN(2) == 0 // the releases may come in any order
		if outerFirst {
			c.release(0, lease)
		}
		if twice {
			c.release(1, inner)
		}
		if !outerFirst {
			c.release(0, lease)
		}
	})
	t.checkHistory(clients, r)
}

// linearizableFenced guards a register with tokens. If the store allows it, one client takes the lock away from its
// holders now and then.
func linearizableFenced(t *trial) {
	clients := t.clients(9)
	guarded := &register{}
	write := func(c *client, l lock.Lease) {
		c.do(c.id, input{kind: write, client: c.id, lease: 2 * c.id, token: l.Token()}, func() output {
			if guarded.write(l.Token()) {
				return output{result: done}
			}
			return output{result: refused}
		})
	}
	var again func(c *client)
	r := modelRules{splitVote: t.SplitVote, tokens: true, reenters: t.promises[Reenters].kind == holds}
	if r.reenters {
		again = reenter
	}
	takeTurns(clients, again)
	t.checkHistory(clients, r)
	runRounds(clients, func(c *client) {
		if c.id == len(clients)-1 && t.Store.Remove != nil {
			time.Sleep(5 * time.Millisecond)
			c.do(c.id, input{kind: removeKey, client: c.id}, func() output {
				c.err = t.Store.Remove(c.ctx, c.key)
				return output{result: done}
			})
			return
		}
		lease, ok := c.acquire(0, false) // no wait: a removed key wakes no waiter
		c.work()
		if !ok {
			return
		}
		write(c, lease)
		c.work()
		write(c, lease)
		c.release(0, lease)
	})
	t.checkHistory(clients, r)
}

// register accepts a write if its token is not older than the newest one seen.
type register struct {
	mu     sync.Mutex
	newest uint64
}

func (r *register) write(token uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.newest {
		return false
	}
	r.newest = token
	return true
}

// checkHistory fails the behaviour if the model could not have produced the history. A history that takes too long to
// check, or in which a server failed, proves nothing.
func (t *trial) checkHistory(clients []*client, r modelRules) {
	model := r.model()
	for _, c := range clients {
		if errors.Is(c.err, lock.ErrNotHeld) {
			t.violated("%v", c.err)
		}
		t.checkErr(c.err)
	}
	ops := clients[0].ops
	markContended(ops)
	result, info := porcupine.CheckOperationsVerbose(model, ops, checkLimit)
	switch result {
	case porcupine.Ok:
	case porcupine.Unknown:
		t.checkErr(fmt.Errorf("a history of %d operations was not checked within %v", len(ops), checkLimit))
	case porcupine.Illegal:
		picture := filepath.Join(t.tb.ArtifactDir(), "history.html") // go test -artifacts keeps it
		if err := porcupine.VisualizePath(model, info, picture); err != nil {
			t.tb.Logf("drawing the history: %v", err)
		}
		t.violated("%s", explainViolation(model, ops, info))
	}
}

// markContended marks every acquisition during which another one was under way.
func markContended(ops []porcupine.Operation) {
	for i := range ops {
		in := ops[i].Input.(input)
		if in.kind != try && in.kind != wait {
			continue
		}
		in.contended = slices.ContainsFunc(ops, func(o porcupine.Operation) bool {
			other := o.Input.(input)
			return other.client != in.client && (other.kind == try || other.kind == wait) &&
				o.Call < ops[i].Return && ops[i].Call < o.Return
		})
		ops[i].Input = in
	}
}

// explainViolation names the operation at which the longest legal order ends, and the operations before it.
func explainViolation(model porcupine.Model, ops []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, explained := range partition {
			if len(explained) > len(longest) {
				longest = explained
			}
		}
	}
	state := model.Init()
	var before []string
	explained := make(map[string]bool)
	name := func(o porcupine.Operation) string { return fmt.Sprint(o.ClientId, o.Call, o.Return) }
	for _, o := range longest {
		_, state = model.Step(state, o.Input, o.Output)
		before = append(before, model.DescribeOperation(o.Input, o.Output))
		explained[name(o)] = true
	}
	rest := slices.DeleteFunc(slices.Clone(ops), func(o porcupine.Operation) bool { return explained[name(o)] })
	slices.SortFunc(rest, func(a, b porcupine.Operation) int { return int(a.Return - b.Return) })
	what := "nothing"
	if len(rest) > 0 {
		what = model.DescribeOperation(rest[0].Input, rest[0].Output)
	}
	return fmt.Sprintf("no order explains the %d operations: after %d of them, the last being %s, the state is %s, and %q cannot follow",
		len(ops), len(longest), strings.Join(before[max(0, len(before)-3):], ", "), model.DescribeState(state), what)
}
