package locktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"seckill/internal/lock"
)

// tolerance is how late a thing may be that must happen in time.
const tolerance = 350 * time.Millisecond

const (
	// longLease outlasts every trial.
	longLease = 30 * time.Second
	// shortLease is for trials that wait for its end.
	shortLease = 150 * time.Millisecond
	// notTold is how long a mechanism without a watchdog is given to tell a
	// holder that it lost its lock.
	notTold = 200 * time.Millisecond
	// trialLimit ends a trial in which a locker hangs.
	trialLimit = 30 * time.Second
	// longLimit is the same where a trial was asked to take its full length.
	longLimit = 10 * time.Minute
)

// violationError is a behaviour that was seen not to hold.
type violationError struct{ what string }

func (v *violationError) Error() string { return v.what }

// trial is one check at work. Its methods end the check, as testing.T's FailNow
// does, when what they ask for does not come about: by a [*violationError] where that
// is the mechanism's fault.
type trial struct {
	Subject
	tb  testing.TB
	ctx context.Context
	key string
	err error

	mu     sync.Mutex
	leases []lock.Lease
}

// try holds one trial. It returns nil when the behaviour held, a [*violationError]
// when it did not, and another error when that could not be found out.
func (b behaviour) try(tb testing.TB, subject Subject) error {
	limit := trialLimit
	if os.Getenv(Long) != "" {
		limit = longLimit
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	t := &trial{Subject: subject, tb: tb, ctx: ctx, key: "seat"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer t.abandonAll()
		b.check(t)
	}()
	<-done
	return t.err
}

// abandonAll lets nothing that the trial still holds be renewed after it.
func (t *trial) abandonAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.leases {
		l.Abandon()
	}
}

// violated ends the trial: the behaviour does not hold.
func (t *trial) violated(format string, args ...any) {
	t.err = &violationError{what: fmt.Sprintf(format, args...)}
	runtime.Goexit()
}

// check ends the trial where the store or the network failed it.
func (t *trial) check(err error) {
	if err != nil {
		t.err = err
		runtime.Goexit()
	}
}

// need ends a trial that this subject cannot hold.
func (t *trial) need(has bool, what string) {
	if !has {
		t.check(errors.New("the subject has no " + what))
	}
}

// process starts a further process.
func (t *trial) process() lock.Locker { return t.Process(t.tb, nil) }

// rivals are two processes, or one twice where processes share no locks.
func (t *trial) rivals() (p, q lock.Locker) {
	p = t.process()
	if !t.Remote {
		return p, p
	}
	return p, t.process()
}

// wired starts a process behind a line. It has acquired and released once, so
// that its connection stands and its scripts are loaded.
func (t *trial) wired() (lock.Locker, *Line) {
	t.need(t.Remote, "connections")
	line := NewLine()
	p := t.Process(t.tb, line)
	t.release(t.holdKey(t.ctx, p, "warm-up", lock.Options{TTL: longLease}))
	return p, line
}

// take is Acquire on the trial's key. It may be called from any goroutine.
func (t *trial) take(ctx context.Context, p lock.Locker, opts lock.Options) (lock.Lease, error) {
	return t.takeKey(ctx, p, t.key, opts)
}

func (t *trial) takeKey(ctx context.Context, p lock.Locker, key string, opts lock.Options) (lock.Lease, error) {
	lease, err := p.Acquire(ctx, key, opts)
	if err == nil {
		t.keep(lease)
	}
	return lease, err
}

// keep remembers a lease for the end of the trial.
func (t *trial) keep(l lock.Lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leases = append(t.leases, l)
}

// hold must acquire.
func (t *trial) hold(p lock.Locker, opts lock.Options) lock.Lease {
	return t.holdAs(t.ctx, p, opts)
}

// holdAs must acquire under ctx, which may carry an owner.
func (t *trial) holdAs(ctx context.Context, p lock.Locker, opts lock.Options) lock.Lease {
	return t.holdKey(ctx, p, t.key, opts)
}

func (t *trial) holdKey(ctx context.Context, p lock.Locker, key string, opts lock.Options) lock.Lease {
	lease, err := t.takeKey(ctx, p, key, opts)
	if err != nil {
		t.violated("could not acquire %q: %v", key, err)
	}
	return lease
}

// release must succeed.
func (t *trial) release(l lock.Lease) {
	if err := l.Release(t.ctx); err != nil {
		t.violated("a release failed: %v", err)
	}
}

// mustBeTaken fails the behaviour when a stranger gets the key.
func (t *trial) mustBeTaken(p lock.Locker, when string) {
	_, err := t.take(t.ctx, p, lock.Options{TTL: longLease})
	if err == nil {
		t.violated("somebody else got the lock %s", when)
	}
	if !errors.Is(err, lock.ErrNotAcquired) {
		t.violated("trying %s gave %v", when, err)
	}
}

// mustBeFree fails the behaviour when a stranger does not get the key.
func (t *trial) mustBeFree(p lock.Locker, when string) {
	lease, err := t.take(t.ctx, p, lock.Options{TTL: longLease})
	if err != nil {
		t.violated("the lock is not free %s: %v", when, err)
	}
	t.release(lease)
}

// mustBeEmpty fails the behaviour when the store, where it can be looked into,
// still has anything.
func (t *trial) mustBeEmpty(when string) {
	if t.Store.Left == nil {
		return
	}
	var left []string
	for limit := time.Now().Add(tolerance); ; time.Sleep(5 * time.Millisecond) {
		var err error
		left, err = t.Store.Left(t.ctx)
		t.check(err)
		if len(left) == 0 {
			return
		}
		if time.Now().After(limit) {
			break
		}
	}
	t.violated("%s there is still %q", when, left)
}

// remove takes the key from its holder.
func (t *trial) remove() {
	t.need(t.Store.Remove != nil, "way to remove a lock")
	t.check(t.Store.Remove(t.ctx, t.key))
}

// ttl is what the store says of the key.
func (t *trial) ttl() time.Duration {
	t.need(t.Store.TTL != nil, "way to ask for a lease's end")
	ttl, err := t.Store.TTL(t.ctx, t.key)
	t.check(err)
	return ttl
}

// outcome is what a goroutine's acquisition came to.
type outcome struct {
	lease lock.Lease
	err   error
	at    time.Time
}

// start acquires in the background. The channel gives the outcome once.
func (t *trial) start(ctx context.Context, p lock.Locker, opts lock.Options) <-chan outcome {
	out := make(chan outcome, 1)
	go func() {
		lease, err := t.take(ctx, p, opts)
		out <- outcome{lease, err, time.Now()}
	}()
	return out
}

// contend runs n goroutines that wait for one signal, and returns when all ended.
func contend(n int, run func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			run(i)
		})
	}
	close(start)
	all.Wait()
}

// until polls a condition that a correct mechanism brings about by itself.
func (t *trial) until(what string, condition func() bool) {
	limit := time.Now().Add(trialLimit / 2)
	for !condition() {
		if time.Now().After(limit) {
			t.check(fmt.Errorf("waited in vain for %s", what))
		}
		time.Sleep(time.Millisecond)
	}
}

// pass lets time pass during which something must not happen.
func (t *trial) pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
		t.check(t.ctx.Err())
	}
}
