package reentrant

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/lock/watchdog"
)

// mechanism is the namespace of this lock's keys.
const mechanism = "reentrant"

// Locker is the mechanism. It is safe for use by many goroutines, and a process
// needs one: its waiters share a connection and its leases one watchdog.
type Locker struct {
	config   Config
	scripts  scripts
	owners   *lock.Owners
	ids      *lock.Owners // of leases
	pipe     *pipe
	watchdog *watchdog.Watchdog[*lease]
	listener *listener
	room     *room

	closing context.Context
	close   context.CancelFunc

	once   sync.Once // for Close
	mu     sync.Mutex
	closed bool           // guarded by mu: no clean-up begins any more
	clean  sync.WaitGroup // clean-ups under way
}

var _ lock.Locker = (*Locker)(nil)

// New checks the configuration ([lock.ErrInvalid]) and starts what works in the
// background. It does not talk to Redis yet. Close stops it all.
func New(client Client, config Config) (*Locker, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: there is no client", lock.ErrInvalid)
	}
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	l := &Locker{
		config:  config,
		scripts: newScripts(),
		owners:  lock.NewOwners(),
		ids:     lock.NewOwners(),
		pipe:    newPipe(client, config.CommandTimeout, config.Pipelines),
	}
	l.closing, l.close = context.WithCancel(context.Background())
	l.watchdog = watchdog.New(watchdog.Config{RenewEvery: config.RenewEvery, RetryEvery: config.RetryEvery}, l.renew, sameHold)
	l.listener = newListener(client, config.RetryEvery)
	l.room = newRoom(l.listener)
	return l, nil
}

// Close ends every wait and stops the watchdog, whose holders are told. It gives
// nothing back: release first. It returns when nothing of the locker runs any more.
func (l *Locker) Close() error {
	l.once.Do(func() {
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		l.close()
		l.watchdog.Close()
		l.listener.close()
		l.pipe.close()
		l.clean.Wait()
	})
	return nil
}

// request is one acquisition.
type request struct {
	key     string
	lock    string // the hash in Redis
	channel string // where its release is announced
	owner   lock.Owner
	lease   string // the field of this lease: the request's identity
	ttl     time.Duration
	renewed bool
	begun   time.Time
	faults  *lock.Faults

	// What the server may do, or have done, for an acquisition that fails.
	granted    bool  // it granted the lease, which was not delivered
	unanswered bool  // an attempt had no answer, and may be carried out yet
	pending    *call // the last attempt, if it was given up before it ended
}

func (l *Locker) request(ctx context.Context, key string, opts lock.Options) *request {
	r := &request{
		key:     key,
		lock:    redisio.Key(l.config.Prefix, mechanism, key, ""),
		channel: redisio.Key(l.config.Prefix, mechanism, key, "free"),
		owner:   l.owners.From(ctx),
		lease:   "lease:" + string(l.ids.New()),
		ttl:     opts.TTL.Truncate(time.Millisecond),
		begun:   time.Now(),
		faults:  opts.Faults,
	}
	if opts.TTL == 0 {
		r.ttl, r.renewed = l.config.WatchdogTimeout.Truncate(time.Millisecond), true
	}
	return r
}

// Acquire implements [lock.Locker]. It costs one round trip where the key is free.
func (l *Locker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	r := l.request(ctx, key, opts)
	delivered := false
	defer func() { // also when a fault panics
		if !delivered && (r.granted || r.unanswered || r.pending != nil) {
			l.giveBack(r)
		}
	}()
	held, err := l.acquire(ctx, r, opts.Wait)
	delivered = err == nil
	if err != nil {
		return nil, err
	}
	return held, nil
}

func (l *Locker) acquire(ctx context.Context, r *request, wait time.Duration) (*lock.Held, error) {
	// Whoever would only stand behind others of this process need not ask Redis.
	// An owner that was given may be re-entering: it must not stand in line
	// behind those who wait for itself.
	_, given := lock.OwnerFrom(ctx)
	if wait > 0 && !given && l.room.busy(r.lock) {
		return l.wait(ctx, r, wait)
	}
	held, err := l.try(ctx, ctx, r, false)
	if wait > 0 && errors.Is(err, lock.ErrNotAcquired) {
		return l.wait(ctx, r, wait)
	}
	return held, err
}

// try asks once. limit ends at the same time as ctx or before, when the wait is
// over; with awaited the release of the present holder will be announced.
func (l *Locker) try(ctx, limit context.Context, r *request, awaited bool) (*lock.Held, error) {
	start := time.Now()
	reply, err := l.ask(ctx, limit, r, awaited)
	if err != nil {
		return nil, err
	}
	switch reply := reply.(type) {
	case int64:
		return l.deliver(ctx, r, start)
	case []any:
		return nil, refusal(r.key, reply)
	}
	return nil, strange(reply)
}

// ask runs acquire.lua, a second time where the outcome of the first is unknown.
func (l *Locker) ask(ctx, limit context.Context, r *request, awaited bool) (any, error) {
	flag := "0"
	if awaited {
		flag = "1"
	}
	ttl := strconv.FormatInt(r.ttl.Milliseconds(), 10)
	for again := false; ; again = true {
		c := l.pipe.run(limit, l.scripts.acquire, r.lock, string(r.owner), r.lease, ttl, flag)
		if !c.wait(limit) {
			r.pending = c
			return nil, l.ended(ctx, r)
		}
		if c.err == nil {
			return c.val, nil
		}
		known := answered(c.err) || never(c.err)
		r.unanswered = r.unanswered || !known
		switch {
		case !known && !again:
			continue
		case limit.Err() != nil:
			return nil, l.ended(ctx, r)
		}
		return nil, redisio.Error(ctx, c.err)
	}
}

// ended says why a wait is over: ctx, the locker, or else its limit.
func (l *Locker) ended(ctx context.Context, r *request) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case l.closing.Err() != nil:
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, errClosed)
	}
	return &lock.NotAcquiredError{Key: r.key}
}

// deliver turns a grant into a lease. What is not delivered is given back; only a
// lock that was abandoned stays as it is.
func (l *Locker) deliver(ctx context.Context, r *request, start time.Time) (*lock.Held, error) {
	r.granted = true
	if err := r.faults.Pass(ctx, lock.AfterAcquireBeforeReply); err != nil {
		if errors.Is(err, lock.ErrAbandoned) {
			r.granted, r.unanswered = false, false
		}
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err // too late to be of use to anybody
	}
	return l.lease(ctx, r, start).dog.Held, nil
}

// refusal makes sense of {owner, ttl}.
func refusal(key string, reply []any) error {
	if len(reply) != 2 {
		return strange(reply)
	}
	holder, ok := reply[0].(string)
	ms, isInt := reply[1].(int64)
	if !ok || !isInt {
		return strange(reply)
	}
	ttl := time.Duration(ms) * time.Millisecond
	if ms == -1 {
		ttl = lock.NoExpiry
	}
	return &lock.NotAcquiredError{Key: key, Holder: lock.Owner(holder), TTL: max(ttl, 0)}
}

// State is what Inspect sees of a lock.
type State struct {
	// Owner holds the lock; empty when it is free.
	Owner lock.Owner
	// Count is by how many leases.
	Count int
	// TTL is until when; [lock.NoExpiry] where the key has no expiry.
	TTL time.Duration
	// Waiting is how many acquisitions of this process wait for it.
	Waiting int
}

// Inspect says who holds key now. By the time it returns, that may have changed.
func (l *Locker) Inspect(ctx context.Context, key string) (State, error) {
	name := redisio.Key(l.config.Prefix, mechanism, key, "")
	state := State{Waiting: l.room.waiting(name)}
	c := l.pipe.run(ctx, l.scripts.inspect, name)
	if !c.wait(ctx) {
		return state, l.ended(ctx, &request{key: key})
	}
	if c.err != nil {
		return state, redisio.Error(ctx, c.err)
	}
	reply, ok := c.val.([]any)
	switch {
	case ok && len(reply) == 0:
		return state, nil
	case !ok || len(reply) != 3:
		return state, strange(c.val)
	}
	owner, okOwner := reply[0].(string)
	count, okCount := reply[1].(int64)
	ttl, okTTL := reply[2].(int64)
	if !okOwner || !okCount || !okTTL {
		return state, strange(reply)
	}
	state.Owner, state.Count, state.TTL = lock.Owner(owner), int(count), time.Duration(ttl)*time.Millisecond
	if ttl == -1 {
		state.TTL = lock.NoExpiry
	}
	return state, nil
}
