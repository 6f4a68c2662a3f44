package quorum

import (
	"context"
	"fmt"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/watchdog"
)

// heldLease is what this process knows of a lease that it holds.
type heldLease struct {
	*attempt
	watched watchdog.Entry[*heldLease]

	// lock.Held makes no two releases at the same time.
	released       []bool // nodes whose key a release deleted
	releaseUnknown []bool // nodes that a release was sent to without an answer
}

// hold makes a lease of a granted attempt and registers it with the watchdog. For its holder it ends with its validity,
// and so before the lease of any node: by the drift, and by [watchdog.Margin] on top.
func (l *Locker) hold(ctx context.Context, a *attempt) *lock.Held {
	h := &heldLease{attempt: a, released: make([]bool, len(l.nodes)), releaseUnknown: make([]bool, len(l.nodes))}
	valid := a.ttl - l.config.drift(a.ttl)
	grant := lock.Grant{
		Key: a.key, Owner: a.owner, Until: watchdog.Until(a.start, valid),
		Release: func(ctx context.Context) error { return l.release(ctx, h) },
		Extend:  func(ctx context.Context, ttl time.Duration) (time.Time, error) { return l.extend(ctx, h, ttl) },
		Stop:    func() { l.watchdog.Unwatch(&h.watched) },
	}
	if !a.autoRenew {
		grant.TTL = a.ttl
	}
	h.watched = watchdog.Entry[*heldLease]{
		Held: lock.NewHeld(ctx, grant), Start: a.start, TTL: valid, AutoRenew: a.autoRenew, Value: h,
	}
	l.watchdog.Watch(&h.watched)
	return h.watched.Held
}

// batchPerTimeout is the number of renewals for which a node gets one NodeTimeout.
const batchPerTimeout = 1000

// renew renews a batch of leases, with one pipeline to each node. The watchdog calls it.
func (l *Locker) renew(ctx context.Context, batch []*watchdog.Entry[*heldLease]) []watchdog.Outcome {
	start := time.Now()
	commands := make([]command, len(batch))
	for i, h := range batch {
		commands[i] = l.extendCommand(h.Value, h.Value.ttl)
	}
	timeout := l.config.NodeTimeout * time.Duration(1+len(batch)/batchPerTimeout)
	replies := askNodes(ctx, timeout, l.nodes, nil, commands...)
	outcomes := make([]watchdog.Outcome, len(batch))
	votes := make([]vote, len(l.nodes))
	for i, h := range batch {
		for n := range votes {
			votes[n] = parseVote(replies[n][i])
		}
		outcomes[i] = watchdog.Outcome{Err: l.extendError(h.Value, votes, start, h.Value.ttl)}
	}
	return outcomes
}

func (l *Locker) extendCommand(h *heldLease, ttl time.Duration) command {
	return run(l.scripts.extend, h.name, h.value, ttl.Milliseconds())
}

// extendError returns nil where enough nodes extended a lease in time.
func (l *Locker) extendError(h *heldLease, votes []vote, start time.Time, ttl time.Duration) error {
	switch extended := count(votes, ours); {
	case extended >= l.quorum:
		return l.checkValidity(start, ttl)
	case extended+count(votes, unknown) >= l.quorum:
		return l.unavailable("extend "+h.key, votes)
	}
	return l.lossError(votes)
}

// lossError is the error of a lease that fewer nodes have than the quorum: lost where a quorum is another holder's,
// otherwise nobody holds the key.
func (l *Locker) lossError(votes []vote) error {
	other := count(votes, theirs) + count(votes, wrongValue)
	what := lock.ErrExpired
	if other >= l.quorum {
		what = lock.ErrLost
	}
	return fmt.Errorf("%w: of %d nodes %d are needed, %d have it no more, %d have another's",
		what, len(l.nodes), l.quorum, count(votes, free), other)
}

// extend makes the lease end ttl from now; ttl 0 stands for the request's TTL.
func (l *Locker) extend(ctx context.Context, h *heldLease, ttl time.Duration) (time.Time, error) {
	if ttl == 0 {
		ttl = h.ttl
	}
	ttl = ttl.Truncate(time.Millisecond)
	if err := l.config.checkLease(ttl); err != nil {
		return time.Time{}, err
	}
	start := time.Now()
	replies := askNodes(ctx, l.config.NodeTimeout, l.nodes, nil, l.extendCommand(h, ttl))
	votes := make([]vote, len(l.nodes))
	for i, r := range replies {
		votes[i] = parseVote(r[0])
	}
	until := watchdog.Until(start, ttl-l.config.drift(ttl))
	err := l.extendError(h, votes, start, ttl)
	switch {
	case err == nil:
		l.watchdog.Extended(&h.watched, until)
		return until, nil
	case count(votes, ours)+count(votes, unknown) > 0 && time.Until(until) < h.watched.Held.Remaining():
		// Some nodes may have shortened the lease: the holder must not rely on the rest.
		h.watched.Held.Renewed(until)
		l.watchdog.Extended(&h.watched, until)
	}
	return time.Time{}, err
}

// release releases a lease on all nodes, including those that did not grant it as far as is known. Where fewer than a
// quorum still had it, it returns an error, and those are released. Where a node gave no answer to one release and
// "free" to the next, the first one released it, as long as the lease could not have expired.
func (l *Locker) release(ctx context.Context, h *heldLease) error {
	ask, votes := make([]bool, len(l.nodes)), make([]vote, len(l.nodes))
	for i, released := range h.released {
		ask[i] = !released
	}
	replies := askNodes(ctx, l.config.NodeTimeout, l.nodes, ask, run(l.scripts.release, h.name, h.value))
	inTime := h.watched.Held.Remaining() > 0
	released := 0
	for i, asked := range ask {
		if asked {
			votes[i] = parseVote(replies[i][0])
			h.recordRelease(i, votes[i], inTime)
		}
		if h.released[i] {
			votes[i] = vote{verdict: ours}
			released++
		}
	}
	l.revokeLater(h.name, h.value, openNodes(votes, h.unconfirmed))
	switch {
	case released >= l.quorum:
		return nil
	case released+count(votes, unknown) >= l.quorum:
		return l.unavailable("release "+h.key, votes)
	case count(votes, wrongValue) > len(l.nodes)-l.quorum:
		return l.wrongKind(votes)
	}
	return l.lossError(votes)
}

// recordRelease records the answer of node i to a release.
func (h *heldLease) recordRelease(i int, v vote, inTime bool) {
	again := h.releaseUnknown[i] || v.maybeRun
	switch v.verdict {
	case ours:
		h.released[i] = true
	case free, theirs:
		h.released[i] = again && inTime && h.votes[i].verdict == ours
	}
	h.releaseUnknown[i] = again
}
