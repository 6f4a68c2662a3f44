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

// Long is the name of an environment variable. If it is not empty, endures-many-pairs takes its full length of sixteen
// times ten thousand pairs.
const Long = "LOCKTEST_LONG"

// enduresManyPairs holds a lock, renewed by the watchdog if there is one, while sixteen goroutines acquire and release
// four other locks without a pause.
func enduresManyPairs(t *trial) {
	const goroutines, keys = 16, 4
	pairs, minPairs, limit := 10_000, int64(200), 5*time.Second
	if t.virtual {
		pairs, minPairs = 250, 50
	}
	if os.Getenv(Long) != "" {
		pairs, limit = goroutines*10_000, longLimit/2
	}
	p, q := t.twoProcesses()
	opts := lock.Options{}
	if t.Renewed == 0 {
		opts.TTL = 2 * longLimit // nothing renews it, so it must outlast the trial
	}
	held := t.mustAcquire(p, opts)
	end := time.Now().Add(limit)
	var done, got atomic.Int64
	var wrong atomic.Pointer[error]
	startTogether(goroutines, func(i int) {
		key := fmt.Sprint("pair:", i%keys)
		// On a busy machine most attempts can meet a holder that does not run: they prove nothing.
		for (done.Add(1) <= int64(pairs) || got.Load() < minPairs) && time.Now().Before(end) && wrong.Load() == nil {
			lease, err := p.Acquire(t.ctx, key, lock.Options{})
			if err == nil {
				got.Add(1)
				err = lease.Release(t.ctx)
			}
			switch {
			case errors.Is(err, lock.ErrNotAcquired) && t.virtual:
				time.Sleep(time.Duration(i+1) * 100 * time.Microsecond) // no time passes while all of them try
			case err != nil && !errors.Is(err, lock.ErrNotAcquired):
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
	t.mustStayTaken(q, t.Renewed, fmt.Sprintf("on another key after %d pairs", got.Load()))
	t.mustRelease(held)
	for i := range keys {
		t.mustRelease(t.mustAcquireKey(t.ctx, q, fmt.Sprint("pair:", i), lock.Options{TTL: t.long}))
	}
	t.mustBeEmpty("after many pairs")
}

// thousandCancelledWaiters counts the goroutines of its waiters. It finds them by a profiler label, which a goroutine
// passes on to those that it starts, because other trials may run at the same time.
func thousandCancelledWaiters(t *trial) {
	const spare = 20 // goroutines that a process has once: listening, dialling
	waiters := 1000
	if t.virtual {
		waiters = 150 // each is a client of its own; a thousand show the same for more
	}
	p := t.process()
	sides := []lock.Locker{p}
	if rw, ok := p.(ReadWriter); ok {
		sides = append(sides, rw.Reader())
	}
	held := t.mustAcquire(p, lock.Options{TTL: t.long})
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	label := fmt.Sprintf("%p", t)
	waits := make([]<-chan outcome, waiters)
	pprof.Do(ctx, pprof.Labels("locktest", label), func(ctx context.Context) {
		for i := range waits {
			waits[i] = t.acquireAsync(ctx, sides[i%len(sides)], lock.Options{TTL: t.long, Wait: t.limit})
		}
	})
	t.sleep(30 * time.Millisecond)
	if t.Store.Connections != nil {
		connections, err := t.Store.Connections(t.ctx)
		t.checkErr(err)
		if connections > 1 {
			t.violated("%d waiters of one process listen on %d connections", waiters, connections)
		}
	}
	cancel()
	for _, w := range waits {
		t.expectContextError((<-w).err, context.Canceled)
	}
	// On a slow machine the server may grant what a waiter asked for after the waiter has left. A clean-up may repeat
	// the release for lock.ReleaseTimeout.
	left := 0
	for limit := time.Now().Add(lock.ReleaseTimeout + t.prompt); ; time.Sleep(5 * time.Millisecond) {
		if left = labelled(label); left <= spare {
			break
		}
		if time.Now().After(limit) {
			t.violated("%d cancelled waiters left %d goroutines", waiters, left)
		}
	}
	patient := t.acquireAsync(t.ctx, p, lock.Options{TTL: t.long, Wait: t.limit})
	t.sleep(20 * time.Millisecond)
	t.mustRelease(held)
	got := <-patient
	if got.err != nil {
		t.violated("the waiter after a thousand cancelled ones did not get the lock: %v", got.err)
	}
	t.mustRelease(got.lease)
	t.mustBecomeEmpty("after a thousand cancelled waiters")
}

// labelled counts the goroutines with a label.
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
