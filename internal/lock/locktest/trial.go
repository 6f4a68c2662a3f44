package locktest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"seckill/internal/lock"
)

// violationError reports that a behaviour was observed not to hold.
type violationError struct {
	what string
	at   time.Time
}

func (v *violationError) Error() string { return v.what }

// lateServerError reports that a server took so long for a step that nothing can be said about a
// mechanism which measures time. The trial could not be run, since the machine was late. The
// [stallWatch] need not have seen it: it watches this process, and the servers are others.
type lateServerError struct {
	step string
	took time.Duration
	err  error // what was found
}

func (e *lateServerError) Error() string {
	return fmt.Sprintf("the server took %v to %s: %v", e.took.Round(time.Millisecond), e.step, e.err)
}

func (e *lateServerError) Unwrap() error { return e.err }

// trial is one run of a check. Like FailNow of testing.T, its methods end the check
// when a condition is not met, with a [*violationError] if the mechanism is at fault.
type trial struct {
	Subject
	tb  testing.TB
	ctx context.Context
	key string
	err error
	// removal is how long the server took to take the key from its holder.
	removal time.Duration
	// background are the goroutines that acquire beside the check.
	background sync.WaitGroup

	mu     sync.Mutex
	leases []lock.Lease
}

// try runs one trial. It returns nil if the behaviour held, a [*violationError] if it
// did not, and another error if the trial could not be run. It returns after the waiters that a check left
// behind when it ended early: they may have to give back what a server granted them.
func (b behaviour) try(tb testing.TB, subject Subject) error {
	ctx, cancel := context.WithTimeout(context.Background(), subject.limit)
	defer cancel()
	t := &trial{Subject: subject, tb: tb, ctx: ctx, key: "seat"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.check(t)
	}()
	<-done
	cancel()
	t.background.Wait()
	t.abandonAll()
	return t.err
}

// abandonAll ends the renewal of all locks that the trial still holds.
func (t *trial) abandonAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.leases {
		lock.Abandon(l)
	}
}

// violated ends the trial because the behaviour does not hold.
func (t *trial) violated(format string, args ...any) {
	t.err = &violationError{what: fmt.Sprintf(format, args...), at: time.Now()}
	runtime.Goexit()
}

// checkErr ends the trial with err if that is not nil: the store or the network failed.
func (t *trial) checkErr(err error) {
	if err != nil {
		t.err = err
		runtime.Goexit()
	}
}

// require ends the trial if the subject does not have what it needs.
func (t *trial) require(has bool, what string) {
	if !has {
		t.checkErr(errors.New("the subject has no " + what))
	}
}

// process starts another process.
func (t *trial) process() lock.Locker { return t.Process(t.tb, nil) }

// twoProcesses returns two processes, or one process twice if processes share no
// locks.
func (t *trial) twoProcesses() (p, q lock.Locker) {
	p = t.process()
	if !t.Remote {
		return p, p
	}
	return p, t.process()
}

// processOnNetwork starts a process behind a network. The process has acquired and
// released once, so that it is connected and its scripts are loaded. If it cannot acquire a
// free key, the trial could not be run: that shows nothing about a behaviour that is declared
// to break.
func (t *trial) processOnNetwork() (lock.Locker, *Network) {
	t.require(t.Remote, "connections")
	network := NewNetwork()
	p := t.Process(t.tb, network)
	lease, err := t.acquireKey(t.ctx, p, "warm-up", lock.Options{TTL: t.long})
	t.checkErr(err)
	t.mustRelease(lease)
	return p, network
}

// acquire calls Acquire on the trial's key. Any goroutine may call it.
func (t *trial) acquire(ctx context.Context, p lock.Locker, opts lock.Options) (lock.Lease, error) {
	return t.acquireKey(ctx, p, t.key, opts)
}

func (t *trial) acquireKey(ctx context.Context, p lock.Locker, key string, opts lock.Options) (lock.Lease, error) {
	lease, err := p.Acquire(ctx, key, opts)
	if err == nil {
		t.track(lease)
	}
	return lease, err
}

// track remembers a lease for the end of the trial.
func (t *trial) track(l lock.Lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leases = append(t.leases, l)
}

// mustAcquire fails the behaviour if the key cannot be acquired.
func (t *trial) mustAcquire(p lock.Locker, opts lock.Options) lock.Lease {
	return t.mustAcquireAs(t.ctx, p, opts)
}

// mustAcquireAs is mustAcquire under ctx, which may carry an owner.
func (t *trial) mustAcquireAs(ctx context.Context, p lock.Locker, opts lock.Options) lock.Lease {
	return t.mustAcquireKey(ctx, p, t.key, opts)
}

func (t *trial) mustAcquireKey(ctx context.Context, p lock.Locker, key string, opts lock.Options) lock.Lease {
	began := time.Now()
	lease, err := t.acquireKey(ctx, p, key, opts)
	took := time.Since(began)
	switch {
	// The mechanism rightly does not count a lease that lasts about as long as its grant took.
	case errors.Is(err, lock.ErrUnavailable) && opts.Wait == 0 && opts.TTL > 0 && took > opts.TTL/2:
		t.checkErr(&lateServerError{"grant the lock", took, err})
	case err != nil:
		t.violated("could not acquire %q: %v", key, err)
	}
	return lease
}

// mustRelease fails the behaviour if the release fails.
func (t *trial) mustRelease(l lock.Lease) {
	if err := l.Release(t.ctx); err != nil {
		t.violated("a release failed: %v", err)
	}
}

// mustBeTaken fails the behaviour if another owner gets the key.
func (t *trial) mustBeTaken(p lock.Locker, when string) {
	_, err := t.acquire(t.ctx, p, lock.Options{TTL: t.long})
	if err == nil {
		t.violated("another owner got the lock %s", when)
	}
	if !errors.Is(err, lock.ErrNotAcquired) {
		t.violated("trying %s gave %v", when, err)
	}
}

// mustBeFree fails the behaviour if another owner does not get the key.
func (t *trial) mustBeFree(p lock.Locker, when string) {
	lease, err := t.acquire(t.ctx, p, lock.Options{TTL: t.long})
	if err != nil {
		t.violated("the lock is not free %s: %v", when, err)
	}
	t.mustRelease(lease)
}

// mustBecomeFree fails the behaviour if the key stays taken after waits that were cancelled. On a slow machine the
// server may grant what a waiter asked for after the waiter has left, and a clean-up may repeat the release for
// lock.ReleaseTimeout.
func (t *trial) mustBecomeFree(p lock.Locker, when string) {
	lease, err := t.acquire(t.ctx, p, lock.Options{TTL: t.long, Wait: lock.ReleaseTimeout + t.prompt})
	if err != nil {
		t.violated("the lock is not free %s: %v", when, err)
	}
	t.mustRelease(lease)
}

// mustBeEmpty fails the behaviour if the store still has anything. It does nothing
// if the store cannot be read.
func (t *trial) mustBeEmpty(when string) {
	if t.Store.Leftovers == nil {
		return
	}
	var left []string
	for limit := time.Now().Add(t.within(gone)); ; time.Sleep(5 * time.Millisecond) {
		var err error
		left, err = t.Store.Leftovers(t.ctx)
		t.checkErr(err)
		if len(left) == 0 {
			return
		}
		if time.Now().After(limit) {
			break
		}
	}
	t.violated("%s the store still has %q", when, left)
}

// removeKey takes the key from its holder.
func (t *trial) removeKey() {
	t.require(t.Store.Remove != nil, "way to remove a lock")
	t.measureRemoval(func() { t.checkErr(t.Store.Remove(t.ctx, t.key)) })
}

// measureRemoval takes the key from its holder by remove, which returns when that is done.
func (t *trial) measureRemoval(remove func()) {
	began := time.Now()
	remove()
	t.removal = time.Since(began)
}

// storedTTL returns the lease that the store has for the key.
func (t *trial) storedTTL() time.Duration {
	t.require(t.Store.TTL != nil, "way to read a lease")
	ttl, err := t.Store.TTL(t.ctx, t.key)
	t.checkErr(err)
	return ttl
}

// outcome is the result of an acquisition in a goroutine.
type outcome struct {
	lease lock.Lease
	err   error
	at    time.Time
}

// acquireAsync acquires in the background. The channel delivers one outcome.
func (t *trial) acquireAsync(ctx context.Context, p lock.Locker, opts lock.Options) <-chan outcome {
	out := make(chan outcome, 1)
	t.background.Go(func() {
		lease, err := t.acquire(ctx, p, opts)
		out <- outcome{lease, err, time.Now()}
	})
	return out
}

// startTogether starts n goroutines at the same moment and returns when all have ended.
func startTogether(n int, run func(i int)) {
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

// eventually polls a condition that a correct mechanism reaches by itself.
func (t *trial) eventually(what string, condition func() bool) {
	limit := time.Now().Add(t.limit / 2)
	for !condition() {
		if time.Now().After(limit) {
			t.checkErr(fmt.Errorf("timed out waiting for %s", what))
		}
		time.Sleep(time.Millisecond)
	}
}

// sleep lets time pass in which something must not happen.
func (t *trial) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
		t.checkErr(t.ctx.Err())
	}
}
