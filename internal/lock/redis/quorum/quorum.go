package quorum

import (
	"context"
	"fmt"
	"sync"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/lock/watchdog"
)

// Locker holds a key while a quorum of independent nodes grants it. It is safe for use by many goroutines; a process
// needs only one per mechanism.
type Locker struct {
	mechanism string
	quorum    int // how many nodes have to grant a key
	nodes     []*node
	config    Config
	scripts   scripts
	owners    *lock.Owners
	ids       *lock.Owners // of attempts
	watchdog  *watchdog.Watchdog[*heldLease]

	closing context.Context
	close   context.CancelFunc

	mu          sync.Mutex
	localQueues map[string]*localQueue // guarded by mu: of keys that somebody in this process waits for
	closed      bool                   // guarded by mu: no clean-up may start any more
	cleanUps    int                    // guarded by mu: running clean-ups
	running     sync.WaitGroup         // clean-ups
}

var (
	_ lock.Locker        = (*Locker)(nil)
	_ lock.Inspector     = (*Locker)(nil)
	_ lock.ForceReleaser = (*Locker)(nil)
)

// New returns the locker of a mechanism in which quorum nodes have to grant a key, and starts its watchdog, which Close
// stops. It returns [lock.ErrInvalid] for arguments that cannot work. It does not talk to the nodes yet.
func New(mechanism string, quorum int, clients []Client, config Config) (*Locker, error) {
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if quorum < 1 || quorum > len(clients) {
		return nil, invalid("%d of %d nodes are to grant", quorum, len(clients))
	}
	nodes, err := newNodes(clients)
	if err != nil {
		return nil, err
	}
	l := &Locker{
		mechanism: mechanism, quorum: quorum, nodes: nodes, config: config,
		scripts: newScripts(), owners: lock.NewOwners(), ids: lock.NewOwners(),
		localQueues: make(map[string]*localQueue),
	}
	l.closing, l.close = context.WithCancel(context.Background())
	l.watchdog = watchdog.New(watchdog.Config{RenewEvery: config.RenewEvery, RetryEvery: config.RetryEvery}, l.renew, nil)
	return l, nil
}

// Close stops the watchdog, which tells the holders, and the clean-ups. It releases nothing: release first.
func (l *Locker) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.close()
	l.watchdog.Close()
	l.running.Wait()
	return nil
}

// request is one acquisition.
type request struct {
	key       string
	name      string // of the key on every node
	owner     lock.Owner
	ttl       time.Duration
	autoRenew bool
}

// Acquire implements [lock.Locker]. It costs one round trip, to all nodes at once, where the key is free. A lease no
// longer than the drift is [lock.ErrInvalid]. The wait limit is for all attempts together; the last one may exceed it
// by up to four NodeTimeouts when a node hangs.
func (l *Locker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	r := &request{
		key: key, name: l.name(key), owner: l.owners.From(ctx),
		ttl: opts.TTL.Truncate(time.Millisecond), autoRenew: opts.TTL == 0,
	}
	if r.autoRenew {
		r.ttl = l.config.WatchdogTimeout.Truncate(time.Millisecond)
	}
	if err := l.config.checkLease(r.ttl); err != nil {
		return nil, err
	}
	if opts.Wait == 0 {
		return l.try(ctx, r)
	}
	return l.acquireQueued(ctx, r, opts.Wait)
}

func (l *Locker) name(key string) string { return redisio.Key(l.config.Prefix, l.mechanism, key, "") }

// attempt is one attempt of a request, with a value of its own. If attempts shared a value, a node could run the SET of
// an earlier attempt late, and the next attempt would take that for its own grant, with a whole lease left.
type attempt struct {
	*request
	value       string
	start       time.Time // before the first command: every node's lease began later
	votes       []vote
	mayHold     []bool // nodes that have the value, or may still get it
	unconfirmed []bool // nodes where that is not known
}

// try makes one attempt. If no quorum grants the key it releases it on the nodes that did.
func (l *Locker) try(ctx context.Context, r *request) (lock.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if l.closing.Err() != nil {
		return nil, fmt.Errorf("%w: the locker is closed", lock.ErrUnavailable)
	}
	a := &attempt{
		request: r, value: string(l.ids.New()) + "#" + string(r.owner), start: time.Now(),
		votes: make([]vote, len(l.nodes)), mayHold: make([]bool, len(l.nodes)), unconfirmed: make([]bool, len(l.nodes)),
	}
	if err := l.collectVotes(ctx, a); err != nil {
		l.cleanUp(a)
		return nil, err
	}
	held := l.hold(ctx, a)
	returned := false
	defer func() {
		if !returned { // a fault panicked
			_ = lock.Release(ctx, held)
		}
	}()
	won, err := lock.Deliver(ctx, held)
	returned = true
	return won, err
}

// collectVotes asks the nodes until a quorum has granted the key, or it is clear that none will.
//
// One round is enough without a contender. Contenders that ask at the same moment may split the votes, so that none
// gets a quorum. Then the one with the first node of those that answered has priority: it keeps its votes and asks the
// other nodes again, and the others release theirs. So one of many contenders wins, if all of them list the nodes in
// the same order. If they do not, it costs no more than the time until the next attempt.
//
// NodeTimeout, and not ctx, ends a round: a release that a node runs before the SET would leave the key behind.
func (l *Locker) collectVotes(ctx context.Context, a *attempt) error {
	retryUntil := a.start.Add(min(2*l.config.NodeTimeout, a.ttl/4))
	for pause := time.Millisecond; ; pause = min(2*pause, 16*time.Millisecond) {
		l.askRemaining(a)
		if count(a.votes, ours) >= l.quorum {
			return l.checkValidity(a.start, a.ttl)
		}
		switch err := l.refusal(a); {
		case ctx.Err() != nil:
			return ctx.Err()
		case !l.hasPriority(a) || time.Now().After(retryUntil):
			return err
		}
		next := time.NewTimer(pause)
		select {
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
			return ctx.Err()
		}
	}
}

// askRemaining asks the nodes that have not granted the key yet.
func (l *Locker) askRemaining(a *attempt) {
	ask := make([]bool, len(l.nodes))
	for i, v := range a.votes {
		ask[i] = v.verdict != ours
	}
	// Not ctx: the attempt is cleaned up whatever becomes of its caller.
	replies := askNodes(context.Background(), l.config.NodeTimeout, l.nodes, ask, set(a.name, a.value, a.ttl))
	for i, r := range replies {
		if !ask[i] {
			continue
		}
		v := parseSet(r[0], a.value)
		a.votes[i] = v
		a.unconfirmed[i] = a.unconfirmed[i] || r[0].maybeRun
		a.mayHold[i] = a.mayHold[i] || v.verdict == ours || r[0].maybeRun
	}
}

// checkValidity checks what is left of a lease that a quorum granted: TTL - elapsed - drift.
func (l *Locker) checkValidity(start time.Time, ttl time.Duration) error {
	elapsed := time.Since(start)
	if validity := ttl - elapsed - l.config.drift(ttl); validity < minValidity {
		return fmt.Errorf("%w: the nodes took %v to grant a lease of %v; its validity is %v",
			lock.ErrUnavailable, elapsed, ttl, validity)
	}
	return nil
}

// refusal returns the error of an attempt that got no quorum.
func (l *Locker) refusal(a *attempt) error {
	taken, wrong := count(a.votes, theirs), count(a.votes, wrongValue)
	toSpare := len(l.nodes) - l.quorum
	switch answered := count(a.votes, ours) + taken + wrong; {
	case wrong > toSpare:
		return l.wrongKind(a.votes)
	case taken > toSpare || answered >= l.quorum:
		value, _ := mostVotes(a.votes)
		return &lock.NotAcquiredError{Key: a.key, Holder: holder(value)}
	}
	return l.unavailable("acquire "+a.key, a.votes)
}

// hasPriority reports whether nobody holds the key, a quorum is possible, and the attempt has the first node of those
// that answered.
func (l *Locker) hasPriority(a *attempt) bool {
	if _, n := mostVotes(a.votes); n >= l.quorum || count(a.votes, ours)+count(a.votes, theirs) < l.quorum {
		return false
	}
	for _, v := range a.votes {
		if v.verdict == ours || v.verdict == theirs {
			return v.verdict == ours
		}
	}
	return false
}
