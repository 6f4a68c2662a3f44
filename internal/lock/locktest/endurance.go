package locktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"time"

	"seckill/internal/lock"
)

// Long is the environment variable that, when it is not empty, lets
// endures-many-pairs take its full length: sixteen times ten thousand.
const Long = "LOCKTEST_LONG"

// enduresManyPairs holds a lock that a watchdog renews, where there is one, while
// sixteen goroutines acquire and release four others without a pause.
func enduresManyPairs(t *trial) {
	const goroutines, keys = 16, 4
	pairs, limit := 10_000, 5*time.Second
	if os.Getenv(Long) != "" {
		pairs, limit = goroutines*10_000, longLimit/2
	}
	p, q := t.rivals()
	opts := lock.Options{}
	if t.Renewed == 0 {
		opts.TTL = 2 * longLimit // nothing renews it, so that it must last by itself
	}
	held := t.hold(p, opts)
	end := time.Now().Add(limit)
	var done, got atomic.Int64
	var wrong atomic.Pointer[error]
	contend(goroutines, func(i int) {
		key := fmt.Sprint("pair:", i%keys)
		for done.Add(1) <= int64(pairs) && time.Now().Before(end) && wrong.Load() == nil {
			lease, err := p.Acquire(t.ctx, key, lock.Options{})
			if err == nil {
				got.Add(1)
				err = lease.Release(t.ctx)
			}
			if err != nil && !errors.Is(err, lock.ErrNotAcquired) {
				wrong.Store(&err)
			}
		}
	})
	if err := wrong.Load(); err != nil {
		t.violated("after %d pairs one failed: %v", got.Load(), *err)
	}
	if got.Load() < goroutines {
		t.violated("only %d of %d acquisitions succeeded", got.Load(), done.Load())
	}
	if closed(held.Lost()) {
		t.violated("after %d pairs the holder of another key was told: %v", got.Load(), context.Cause(held.Context()))
	}
	t.staysTaken(q, t.Renewed, fmt.Sprintf("on another key after %d pairs", got.Load()))
	t.release(held)
	for i := range keys {
		t.release(t.holdKey(t.ctx, q, fmt.Sprint("pair:", i), lock.Options{TTL: longLease}))
	}
	t.mustBeEmpty("after many pairs")
}

// thousandCancelledWaiters counts the goroutines that came of the waiters by a
// label, which a goroutine hands down to those that it starts: other trials run at
// the same time.
func thousandCancelledWaiters(t *trial) {
	const waiters, spare = 1000, 20 // a listener, dialling: what a process has once
	p := t.process()
	held := t.hold(p, lock.Options{TTL: longLease})
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	label := fmt.Sprintf("%p", t)
	waits := make([]<-chan outcome, waiters)
	pprof.Do(ctx, pprof.Labels("locktest", label), func(ctx context.Context) {
		for i := range waits {
			waits[i] = t.start(ctx, p, lock.Options{TTL: longLease, Wait: trialLimit})
		}
	})
	t.pass(100 * time.Millisecond)
	if t.Store.Connections != nil {
		connections, err := t.Store.Connections(t.ctx)
		t.check(err)
		if connections > 1 {
			t.violated("%d waiters of one process listen on %d connections", waiters, connections)
		}
	}
	cancel()
	for _, w := range waits {
		t.expectContextError((<-w).err, context.Canceled)
	}
	left := 0
	for limit := time.Now().Add(promptWait); ; time.Sleep(5 * time.Millisecond) {
		if left = labelled(label); left <= spare {
			break
		}
		if time.Now().After(limit) {
			t.violated("of %d cancelled waiters %d goroutines are left", waiters, left)
		}
	}
	patient := t.start(t.ctx, p, lock.Options{TTL: longLease, Wait: anyWait})
	t.pass(20 * time.Millisecond)
	t.release(held)
	got := <-patient
	if got.err != nil {
		t.violated("who came after a thousand cancelled waiters did not get in: %v", got.err)
	}
	t.release(got.lease)
	t.emptyInTheEnd("after a thousand cancelled waiters")
}

// labelled counts goroutines with a label.
func labelled(label string) int {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return 0
	}
	count, group := 0, 0
	for line := range strings.Lines(profile.String()) {
		// "12 @ 0x… 0x…" begins a group of goroutines; its labels follow.
		if n, _ := fmt.Sscanf(line, "%d @", &group); n == 1 {
			continue
		}
		if strings.HasPrefix(line, "# labels:") && strings.Contains(line, label) {
			count += group
		}
	}
	return count
}
