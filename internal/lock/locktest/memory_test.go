package locktest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"seckill/internal/lock"
)

// memory is a server in memory. Its lock has leases, re-entry, tokens, order and readers,
// and one flaw.
type memory struct {
	flaw string

	mu     sync.Mutex
	keys   map[string]*entry
	tokens map[string]uint64
	grants int
	first  *lock.Held    // the first lease that was granted
	end    chan struct{} // closed at the end of the test
}

type entry struct {
	leases []*memoryLease
	queue  []*memoryWaiter
}

type memoryLease struct {
	owner  lock.Owner
	shared bool
	until  time.Time
}

type memoryWaiter struct {
	*memoryLease
	ttl   time.Duration
	token uint64
	got   chan struct{}
}

// process is a client of memory, for readers or for writers.
type process struct {
	*memory
	owners *lock.Owners
	shared bool
}

func (p *process) Reader() lock.Locker { return &process{p.memory, p.owners, true} }
func (p *process) Writer() lock.Locker { return &process{p.memory, p.owners, false} }

func memorySubject(t *testing.T, flaw string) Subject {
	m := &memory{flaw: flaw, keys: make(map[string]*entry), tokens: make(map[string]uint64), end: make(chan struct{})}
	t.Cleanup(func() { close(m.end) })
	return Subject{
		Process: func(testing.TB, *Network) lock.Locker { return &process{memory: m, owners: lock.NewOwners()} },
		Store: Store{
			TTL: m.ttl, Shorten: m.shorten, Remove: m.remove, Waiting: m.waiting, Leftovers: m.left,
			Pause: m.pause, Connections: func(context.Context) (int, error) {
				if flaw == "a connection for each waiter" {
					return m.waiting(context.Background(), "seat")
				}
				return 0, nil
			},
		},
		promises: Promises{Reenters: Holds()},
	}
}

func (p *process) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	if p.flaw == "a goroutine for each waiter" && opts.Wait > 0 {
		go func() { <-p.end }()
	}
	if opts.TTL == 0 {
		opts.TTL = time.Hour
	}
	w := &memoryWaiter{
		memoryLease: &memoryLease{owner: p.owners.From(ctx), shared: p.shared},
		ttl:         opts.TTL, got: make(chan struct{}),
	}
	p.mu.Lock()
	e := p.entry(key)
	e.purge()
	switch {
	case p.admits(e, w) && (len(e.queue) == 0 || e.has(w.owner) || p.flaw == "readers overtake the queue" && w.shared):
		p.grant(key, e, w)
	case e.upgrade(w) && p.flaw != "an upgrade waits":
		opts.Wait = 0
	case opts.Wait > 0:
		e.queue = append(e.queue, w)
	}
	p.mu.Unlock()

	timer := time.NewTimer(opts.Wait)
	defer timer.Stop()
	var err error
	select {
	case <-w.got:
	default:
		done := ctx.Done()
		if p.flaw == "the context is ignored" {
			done = nil
		}
		select {
		case <-w.got:
		case <-done:
			err = ctx.Err()
		case <-timer.C:
			err = &lock.NotAcquiredError{Key: key}
		}
	}
	if err != nil {
		p.leave(key, w)
		return nil, err
	}
	return p.lease(ctx, key, opts, w), nil
}

func (p *process) lease(ctx context.Context, key string, opts lock.Options, w *memoryWaiter) lock.Lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := lock.NewHeld(ctx, lock.Grant{
		Key: key, Owner: w.owner, Token: w.token, Until: w.until, TTL: opts.TTL,
		Release: func(context.Context) error { return p.release(key, w.memoryLease) },
		Extend: func(_ context.Context, ttl time.Duration) (time.Time, error) {
			return p.extend(key, w.memoryLease, ttl)
		},
	})
	if p.first == nil {
		p.first = l
	}
	if p.flaw == "after a hundred grants the first lease is lost" && p.grants == 100 {
		p.first.Lose(lock.ErrExpired)
	}
	return l
}

func (m *memory) entry(key string) *entry {
	e := m.keys[key]
	if e == nil {
		e = &entry{}
		m.keys[key] = e
	}
	return e
}

func (e *entry) purge() {
	now := time.Now()
	e.leases = slices.DeleteFunc(e.leases, func(l *memoryLease) bool { return !l.until.After(now) })
}

func (e *entry) has(owner lock.Owner) bool {
	return slices.ContainsFunc(e.leases, func(l *memoryLease) bool { return l.owner == owner })
}

// upgrade reports whether a reader asks to write.
func (e *entry) upgrade(w *memoryWaiter) bool {
	return !w.shared && slices.ContainsFunc(e.leases, func(l *memoryLease) bool { return l.owner == w.owner && l.shared })
}

func (m *memory) admits(e *entry, w *memoryWaiter) bool {
	switch {
	case m.flaw == "every twentieth caller gets the lock" && m.grants%20 == 19:
		m.grants++
		return true
	case m.flaw == "a writer may join readers" && !w.shared && e.leases != nil && e.leases[0].shared:
		return true
	case m.flaw == "readers exclude each other" && w.shared:
		return len(e.leases) == 0
	case m.flaw == "no downgrade" && w.shared && e.has(w.owner):
		return false
	}
	writes := slices.ContainsFunc(e.leases, func(l *memoryLease) bool { return l.owner == w.owner && !l.shared })
	return !slices.ContainsFunc(e.leases, func(l *memoryLease) bool {
		together := l.shared && w.shared || l.owner == w.owner && (!l.shared || writes)
		return !together
	})
}

// grant grants the lock to w. The caller has locked m.mu.
func (m *memory) grant(key string, e *entry, w *memoryWaiter) {
	m.grants++
	switch {
	case m.flaw == "re-entry changes the token" || !e.has(w.owner):
		if m.flaw != "a token is given twice" || m.grants%10 != 9 {
			m.tokens[key]++
		}
	}
	w.token = m.tokens[key]
	w.until = time.Now().Add(w.ttl)
	if m.flaw == "readers share one lease" && w.shared {
		for _, l := range e.leases {
			l.until = w.until
		}
	}
	e.leases = append(e.leases, w.memoryLease)
	time.AfterFunc(w.ttl, func() { m.advance(key) })
	close(w.got)
}

func (m *memory) advance(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advanceLocked(key)
}

func (m *memory) advanceLocked(key string) {
	e := m.entry(key)
	e.purge()
	if m.flaw == "the last waiter is served first" {
		slices.Reverse(e.queue)
		defer func() { slices.Reverse(e.queue) }()
	}
	for n := 0; len(e.queue) > 0 && m.admits(e, e.queue[0]); n++ {
		if m.flaw == "readers are admitted one by one" && n == 1 {
			break
		}
		w := e.queue[0]
		e.queue = e.queue[1:]
		m.grant(key, e, w)
	}
	if len(e.leases) == 0 && len(e.queue) == 0 {
		delete(m.keys, key)
	}
	if m.flaw == "the token counter is deleted with the lock" && len(e.leases) == 0 {
		delete(m.tokens, key)
	}
}

func (m *memory) leave(key string, w *memoryWaiter) {
	m.mu.Lock()
	e := m.entry(key)
	if m.flaw != "a waiter that gave up stays in the queue" {
		e.queue = slices.DeleteFunc(e.queue, func(o *memoryWaiter) bool { return o == w })
	}
	m.mu.Unlock()
	_ = m.release(key, w.memoryLease) // the lock may have been granted meanwhile
}

func (m *memory) release(key string, l *memoryLease) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.advanceLocked(key)
	e := m.entry(key)
	e.purge()
	i := slices.Index(e.leases, l)
	switch {
	case i >= 0 && m.flaw == "one release frees all holds":
		e.leases = nil
	case i >= 0:
		e.leases = slices.Delete(e.leases, i, i+1)
	case len(e.leases) == 0 || e.has(l.owner):
		return lock.ErrExpired
	default:
		return lock.ErrLost
	}
	if m.flaw == "a reader's release ends all leases" && l.shared {
		e.leases = nil
	}
	if m.flaw == "a release lengthens other leases" && l.shared {
		for _, other := range e.leases {
			other.until = other.until.Add(time.Hour)
		}
	}
	return nil
}

func (m *memory) extend(key string, l *memoryLease, ttl time.Duration) (time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(key)
	e.purge()
	switch {
	case slices.Contains(e.leases, l):
	case m.flaw == "extending revives a lost lease":
		e.leases = append(e.leases, l)
	case len(e.leases) == 0:
		return time.Time{}, lock.ErrExpired
	default:
		return time.Time{}, lock.ErrLost
	}
	until := time.Now().Add(ttl)
	switch m.flaw {
	case "extending adds up":
		until = l.until.Add(ttl)
	case "extending changes nothing":
		return until, nil
	}
	l.until = until
	time.AfterFunc(ttl, func() { m.advance(key) })
	return until, nil
}

// Inspect implements [lock.Inspector].
func (m *memory) Inspect(_ context.Context, key string) (lock.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(key)
	e.purge()
	s := lock.State{Waiting: len(e.queue)}
	for _, l := range e.leases {
		s.Owner, s.Count = l.owner, s.Count+1
		s.TTL = max(s.TTL, time.Until(l.until))
		s.Token = m.tokens[key]
	}
	switch {
	case m.flaw == "the hold count stays at one":
		s.Count = min(s.Count, 1)
	case m.flaw == "waiters are not counted":
		s.Waiting = 0
	case m.flaw == "a free key has an owner" && s.Owner == "":
		s.Owner = "somebody"
	}
	return s, nil
}

// ForceRelease implements [lock.ForceReleaser].
func (m *memory) ForceRelease(_ context.Context, key string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(key)
	e.purge()
	held := len(e.leases) > 0
	switch m.flaw {
	case "a forced release frees nothing":
		return held, nil
	case "a forced release always reports success":
		held = true
	case "a forced release wakes nobody":
		e.leases = nil
		return held, nil
	}
	e.leases = nil
	m.advanceLocked(key)
	return held, nil
}

func (m *memory) ttl(_ context.Context, key string) (time.Duration, error) {
	s, err := m.Inspect(context.Background(), key)
	return s.TTL, err
}

func (m *memory) shorten(_ context.Context, key string, ttl time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.entry(key).leases {
		l.until = time.Now().Add(ttl)
	}
	time.AfterFunc(ttl, func() { m.advance(key) })
	return nil
}

func (m *memory) remove(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(key).leases = nil
	m.advanceLocked(key)
	return nil
}

func (m *memory) waiting(_ context.Context, key string) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entry(key).queue), nil
}

func (m *memory) left(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var left []string
	for key, e := range m.keys {
		if e.purge(); len(e.leases)+len(e.queue) > 0 {
			left = append(left, key)
		}
	}
	return left, nil
}

func (m *memory) pause(context.Context, time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.flaw == "a pause reverses the queue" {
		for _, e := range m.keys {
			slices.Reverse(e.queue)
		}
	}
	return nil
}
