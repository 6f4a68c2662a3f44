package quorum

import (
	"context"
	"fmt"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/watchdog"
)

// lease is what this process knows of one lease it was granted.
type lease struct {
	*attempt
	dog watchdog.Lease[*lease] // what the watchdog knows of it

	// Releases come one after the other: the holder's state sees to it.
	had       []bool // nodes that a release found ours, and deleted
	uncertain []bool // nodes to which a release was sent that had no answer
}

// lease makes a lease of a grant and puts it under watch. For its holder it ends
// with the validity, before the lease of the first node can: the drift earlier, and
// by [watchdog.Margin] more.
func (l *Locker) lease(ctx context.Context, a *attempt) *lock.Held {
	g := &lease{attempt: a, had: make([]bool, len(l.nodes)), uncertain: make([]bool, len(l.nodes))}
	valid := a.ttl - l.config.drift(a.ttl)
	grant := lock.Grant{
		Key: a.key, Owner: a.owner, Until: watchdog.Until(a.start, valid),
		Release: func(ctx context.Context) error { return l.release(ctx, g) },
		Extend:  func(ctx context.Context, ttl time.Duration) (time.Time, error) { return l.extend(ctx, g, ttl) },
		Stop:    func() { l.watchdog.Forget(&g.dog) },
	}
	if !a.renewed {
		grant.TTL = a.ttl
	}
	g.dog = watchdog.Lease[*lease]{
		Held: lock.NewHeld(ctx, grant), Start: a.start, TTL: valid, Renewed: a.renewed, Of: g,
	}
	l.watchdog.Watch(&g.dog)
	return g.dog.Held
}

// batchPerTimeout is how many renewals a node is given one NodeTimeout for.
const batchPerTimeout = 1000

// renew asks for a whole lease again for all of batch, in one pipeline to each
// node. It is how the watchdog reaches the nodes.
func (l *Locker) renew(ctx context.Context, batch []*watchdog.Lease[*lease]) []watchdog.Outcome {
	start := time.Now()
	commands := make([]command, len(batch))
	for i, g := range batch {
		commands[i] = l.extension(g.Of, g.Of.ttl)
	}
	timeout := l.config.NodeTimeout * time.Duration(1+len(batch)/batchPerTimeout)
	replies := round(ctx, timeout, l.nodes, nil, commands...)
	outcomes := make([]watchdog.Outcome, len(batch))
	votes := make([]vote, len(l.nodes))
	for i, g := range batch {
		for n := range votes {
			votes[n] = judged(replies[n][i])
		}
		outcomes[i] = watchdog.Outcome{Err: l.extended(g.Of, votes, start, g.Of.ttl)}
	}
	return outcomes
}

func (l *Locker) extension(g *lease, ttl time.Duration) command {
	return l.scripts.extend.on(g.name, g.value, ttl.Milliseconds())
}

// extended says whether enough nodes extended a lease in time.
func (l *Locker) extended(g *lease, votes []vote, start time.Time, ttl time.Duration) error {
	switch extended := count(votes, ours); {
	case extended >= l.need:
		return l.inTime(start, ttl)
	case extended+count(votes, unknown) >= l.need:
		return l.unavailable("extend "+g.key, votes)
	}
	return l.over(votes)
}

// over says what became of a lease that fewer nodes have than are needed: it is
// lost where as many are somebody else's, else nobody holds the key.
func (l *Locker) over(votes []vote) error {
	other := count(votes, theirs) + count(votes, spoiled)
	what := lock.ErrExpired
	if other >= l.need {
		what = lock.ErrLost
	}
	return fmt.Errorf("%w: of %d nodes %d are needed, %d have it no more, %d have another's",
		what, len(l.nodes), l.need, count(votes, gone), other)
}

// extend implements [lock.Lease]'s Extend. ttl 0 is for a lease that is renewed.
func (l *Locker) extend(ctx context.Context, g *lease, ttl time.Duration) (time.Time, error) {
	if ttl == 0 {
		ttl = g.ttl
	}
	ttl = ttl.Truncate(time.Millisecond)
	if err := l.config.checkLease(ttl); err != nil {
		return time.Time{}, err
	}
	start := time.Now()
	replies := round(ctx, l.config.NodeTimeout, l.nodes, nil, l.extension(g, ttl))
	votes := make([]vote, len(l.nodes))
	for i, r := range replies {
		votes[i] = judged(r[0])
	}
	until := watchdog.Until(start, ttl-l.config.drift(ttl))
	err := l.extended(g, votes, start, ttl)
	switch {
	case err == nil:
		l.watchdog.Extended(&g.dog, until)
		return until, nil
	case count(votes, ours)+count(votes, unknown) > 0 && time.Until(until) < g.dog.Held.Remaining():
		// Some nodes may have shortened the lease: nobody may count on the rest of it.
		g.dog.Held.Renewed(until)
		l.watchdog.Extended(&g.dog, until)
	}
	return time.Time{}, err
}

// release gives a lease back on all nodes, also on those that did not grant it as
// far as is known. Where fewer than the quorum still had it, it says so and has
// released those. A node that a release found without an answer, and that says at
// the next that nothing is there, had it, as long as it could not have run out.
func (l *Locker) release(ctx context.Context, g *lease) error {
	ask, votes := make([]bool, len(l.nodes)), make([]vote, len(l.nodes))
	for i, had := range g.had {
		ask[i] = !had
	}
	replies := round(ctx, l.config.NodeTimeout, l.nodes, ask, l.scripts.release.on(g.name, g.value))
	inTime := g.dog.Held.Remaining() > 0
	had := 0
	for i, asked := range ask {
		if asked {
			votes[i] = judged(replies[i][0])
			g.found(i, votes[i], inTime)
		}
		if g.had[i] {
			votes[i] = vote{verdict: ours}
			had++
		}
	}
	l.settle(g.name, g.value, unsure(votes, g.pending))
	switch {
	case had >= l.need:
		return nil
	case had+count(votes, unknown) >= l.need:
		return l.unavailable("release "+g.key, votes)
	case count(votes, spoiled) > len(l.nodes)-l.need:
		return l.wrongKind(votes)
	}
	return l.over(votes)
}

// found takes down what a release found on node i.
func (g *lease) found(i int, v vote, inTime bool) {
	again := g.uncertain[i] || v.inDoubt
	switch v.verdict {
	case ours:
		g.had[i] = true
	case gone, theirs:
		g.had[i] = again && inTime && g.votes[i].verdict == ours
	}
	g.uncertain[i] = again
}
