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

// Locker holds a key while enough independent nodes grant it. It is safe for use
// by many goroutines, and a process needs one of a kind.
type Locker struct {
	mechanism string
	need      int
	nodes     []*node
	config    Config
	scripts   scripts
	owners    *lock.Owners
	ids       *lock.Owners // of attempts
	watchdog  *watchdog.Watchdog[*lease]

	closing context.Context
	close   context.CancelFunc

	mu       sync.Mutex
	turns    map[string]*turn // guarded by mu: of keys that somebody here waits for
	closed   bool             // guarded by mu: no clean-up begins any more
	settling int              // guarded by mu: clean-ups under way
	running  sync.WaitGroup   // clean-ups
}

var (
	_ lock.Locker    = (*Locker)(nil)
	_ lock.Inspector = (*Locker)(nil)
	_ lock.Breaker   = (*Locker)(nil)
)

// New makes a locker of a mechanism's name for which need of the nodes have to
// grant, and starts its watchdog. It refuses with [lock.ErrInvalid] what cannot
// work, and does not talk to the nodes yet. Close stops it.
func New(mechanism string, need int, clients []Client, config Config) (*Locker, error) {
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if need < 1 || need > len(clients) {
		return nil, invalid("%d of %d nodes are to grant", need, len(clients))
	}
	nodes, err := newNodes(clients)
	if err != nil {
		return nil, err
	}
	l := &Locker{
		mechanism: mechanism, need: need, nodes: nodes, config: config,
		scripts: newScripts(), owners: lock.NewOwners(), ids: lock.NewOwners(),
		turns: make(map[string]*turn),
	}
	l.closing, l.close = context.WithCancel(context.Background())
	l.watchdog = watchdog.New(watchdog.Config{RenewEvery: config.RenewEvery, RetryEvery: config.RetryEvery}, l.renew, nil)
	return l, nil
}

// Close stops the watchdog, whose holders are told, and what is still being
// cleaned up. It gives nothing back: release first.
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
	key     string
	name    string // of the key on every node
	owner   lock.Owner
	ttl     time.Duration
	renewed bool
	faults  *lock.Faults
}

// Acquire implements [lock.Locker]. It costs one round trip, to all nodes at once,
// where the key is free. A lease that the drift would use up is [lock.ErrInvalid].
// The wait limit is for the whole; the try under way at its end may take up to
// four NodeTimeouts more when a node hangs.
func (l *Locker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	r := &request{
		key: key, name: l.name(key), owner: l.owners.From(ctx),
		ttl: opts.TTL.Truncate(time.Millisecond), renewed: opts.TTL == 0, faults: opts.Faults,
	}
	if r.renewed {
		r.ttl = l.config.WatchdogTimeout.Truncate(time.Millisecond)
	}
	if err := l.config.checkLease(r.ttl); err != nil {
		return nil, err
	}
	if opts.Wait == 0 {
		return l.try(ctx, r)
	}
	return l.inTurn(ctx, r, opts.Wait)
}

func (l *Locker) name(key string) string { return redisio.Key(l.config.Prefix, l.mechanism, key, "") }

// attempt is one try of a request. Its value is its own: were it the request's, a
// node could carry out the SET of an earlier try late, and the next would take
// that for a grant of its own, with a whole lease before it.
type attempt struct {
	*request
	value   string
	start   time.Time // before the first command: every node's lease began later
	votes   []vote
	touched []bool // nodes that have the value, or may yet get it
	pending []bool // nodes of which that is not known
}

// try asks all nodes and, where they do not grant the key, gives back what some of
// them did.
func (l *Locker) try(ctx context.Context, r *request) (lock.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if l.closing.Err() != nil {
		return nil, fmt.Errorf("%w: the locker is closed", lock.ErrUnavailable)
	}
	a := &attempt{
		request: r, value: string(l.ids.New()) + "#" + string(r.owner), start: time.Now(),
		votes: make([]vote, len(l.nodes)), touched: make([]bool, len(l.nodes)), pending: make([]bool, len(l.nodes)),
	}
	if err := l.canvass(ctx, a); err != nil {
		l.giveBack(a)
		return nil, err
	}
	held := l.lease(ctx, a)
	returned := false
	defer func() {
		if !returned { // a fault panicked
			_ = lock.Release(ctx, held)
		}
	}()
	won, err := lock.Deliver(ctx, held, r.faults)
	returned = true
	return won, err
}

// canvass asks until enough nodes granted, or it is clear that they do not.
//
// One round is enough where nobody else asks at the same moment. Contenders that
// do may each get some nodes and none of them enough. Then whoever has the first
// node of those that answered insists: it keeps what it has and asks the others
// again, while everybody else gives back. So of many that try at once one wins,
// as long as all of them list the nodes in one order; where they do not, no more is
// lost than the time until they ask again.
//
// A round is not cut short by ctx but by NodeTimeout: to give back what was asked
// for before it is answered could leave it behind.
func (l *Locker) canvass(ctx context.Context, a *attempt) error {
	insist := a.start.Add(min(2*l.config.NodeTimeout, a.ttl/4))
	for pause := time.Millisecond; ; pause = min(2*pause, 16*time.Millisecond) {
		l.poll(a)
		if count(a.votes, ours) >= l.need {
			return l.inTime(a.start, a.ttl)
		}
		switch err := l.refusal(a); {
		case ctx.Err() != nil:
			return ctx.Err()
		case !l.mayInsist(a) || time.Now().After(insist):
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

// poll asks the nodes that have not granted yet.
func (l *Locker) poll(a *attempt) {
	ask := make([]bool, len(l.nodes))
	for i, v := range a.votes {
		ask[i] = v.verdict != ours
	}
	// The attempt is given back on time of its own, whatever becomes of its caller.
	replies := round(context.Background(), l.config.NodeTimeout, l.nodes, ask, set(a.name, a.value, a.ttl))
	for i, r := range replies {
		if !ask[i] {
			continue
		}
		v := granted(r[0], a.value)
		a.votes[i] = v
		a.pending[i] = a.pending[i] || r[0].inDoubt
		a.touched[i] = a.touched[i] || v.verdict == ours || r[0].inDoubt
	}
}

// inTime checks the validity of what enough nodes granted: lease - elapsed - drift.
func (l *Locker) inTime(start time.Time, ttl time.Duration) error {
	elapsed := time.Since(start)
	if validity := ttl - elapsed - l.config.drift(ttl); validity < minValidity {
		return fmt.Errorf("%w: the nodes took %v to grant a lease of %v; its validity is %v",
			lock.ErrUnavailable, elapsed, ttl, validity)
	}
	return nil
}

// refusal says why an attempt has no quorum.
func (l *Locker) refusal(a *attempt) error {
	taken, wrong := count(a.votes, theirs), count(a.votes, spoiled)
	toSpare := len(l.nodes) - l.need
	switch answered := count(a.votes, ours) + taken + wrong; {
	case wrong > toSpare:
		return l.wrongKind(a.votes)
	case taken > toSpare || answered >= l.need:
		value, _ := leader(a.votes)
		return &lock.NotAcquiredError{Key: a.key, Holder: holder(value)}
	}
	return l.unavailable("acquire "+a.key, a.votes)
}

// mayInsist reports that nobody holds the key, a quorum is within reach, and the
// attempt has the first node of those that answered.
func (l *Locker) mayInsist(a *attempt) bool {
	if _, n := leader(a.votes); n >= l.need || count(a.votes, ours)+count(a.votes, theirs) < l.need {
		return false
	}
	for _, v := range a.votes {
		if v.verdict == ours || v.verdict == theirs {
			return v.verdict == ours
		}
	}
	return false
}
