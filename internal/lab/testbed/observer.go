package testbed

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab/judge"
	"seckill/internal/lock"
)

// Observer samples what a lock store holds under keys: it asks every millisecond, or as
// [Run.SampleEvery] says, one request at a time, and keeps the changes.
type Observer struct {
	run       *Run
	every     time.Duration
	inspector lock.Inspector
	keys      []string
	server    string // one of several, by name; "": see [Run.SoFar]
	stop      context.CancelFunc
	done      chan struct{}

	mu      sync.Mutex
	passes  int
	last    map[string]judge.Sample
	samples []judge.Sample
}

const (
	// sampleTimeout bounds one request, so that a store that hangs is noticed.
	sampleTimeout = 500 * time.Millisecond
	// minRenewal is the least by which a renewal moves the expiry of a key. A smaller
	// difference is measurement error.
	minRenewal = 20 * time.Millisecond
)

// SampleEvery sets how often the observers ask that begin after it. Asking every millisecond takes a
// fifth of a processor core, which is too much for what lasts minutes.
func (r *Run) SampleEvery(pause time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sampleEvery = pause
}

// Observe samples keys until the experiment ends. Without an inspector, or with one that does
// not support it, the observer sees nothing.
func (r *Run) Observe(of lock.Inspector, keys ...string) *Observer {
	return r.ObserveServer("", of, keys...)
}

// ObserveServer samples what one of several servers holds, which says nothing about the lock: in
// [Run.SoFar] it has a lane of its own.
func (r *Run) ObserveServer(name string, of lock.Inspector, keys ...string) *Observer {
	ctx, cancel := context.WithCancel(r.ctx)
	o := &Observer{run: r, inspector: of, keys: keys, server: name, stop: cancel, done: make(chan struct{}), last: map[string]judge.Sample{}}
	if of == nil || len(keys) == 0 {
		close(o.done)
		return o
	}
	r.mu.Lock()
	o.every = r.sampleEvery
	r.observers = append(r.observers, o)
	r.mu.Unlock()
	go o.watch(ctx)
	r.Cleanup(o.Stop)
	o.awaitPass() // what happens from now on is observed
	return o
}

// Stop ends the sampling. The samples remain.
func (o *Observer) Stop() {
	o.stop()
	<-o.done
}

// Lose ends the sampling of a server that is gone.
func (o *Observer) Lose(why string) {
	o.Stop()
	for _, key := range o.keys {
		o.record(judge.Sample{At: now(), Key: key, Err: why})
	}
}

func (o *Observer) watch(ctx context.Context) {
	defer close(o.done)
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	for {
		for _, key := range o.keys {
			if !o.sample(ctx, key) {
				return
			}
		}
		o.mu.Lock()
		o.passes++
		o.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// sample asks once. It reports false when there is nothing more to observe.
func (o *Observer) sample(ctx context.Context, key string) bool {
	asking, cancel := context.WithTimeout(ctx, sampleTimeout)
	state, err := o.inspector.Inspect(asking, key)
	cancel()
	switch {
	case ctx.Err() != nil, errors.Is(err, errors.ErrUnsupported):
		return false
	case err != nil:
		o.record(judge.Sample{At: now(), Key: key, Err: err.Error()})
	default:
		o.record(judge.Sample{At: now(), Key: key, Stored: *eventlog.StoredFrom(state)})
	}
	return true
}

func (o *Observer) record(seen judge.Sample) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if before, known := o.last[seen.Key]; known && unchanged(before, seen) {
		return
	}
	o.last[seen.Key] = seen
	o.samples = append(o.samples, seen)
}

// unchanged reports whether two samples differ only in time.
func unchanged(a, b judge.Sample) bool {
	if (a.Err != "") != (b.Err != "") || a.Stored.Owner != b.Stored.Owner || a.Stored.Token != b.Stored.Token {
		return false
	}
	endA, endsA := end(a)
	endB, endsB := end(b)
	return endsA == endsB && (endA-endB).Abs() < minRenewal
}

// end returns when the stored lock expires, since 1970.
func end(s judge.Sample) (at time.Duration, ends bool) {
	if s.Stored.TTLMS == nil {
		return 0, false
	}
	return time.Duration(s.At) + time.Duration(*s.Stored.TTLMS*float64(time.Millisecond)), true
}

// awaitPass waits until every key has been sampled once more.
func (o *Observer) awaitPass() {
	passed := func() int {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.passes
	}
	before := passed()
	if before > 0 {
		before++ // the current pass may have begun before
	}
	o.run.Until("another look at the lock's store", func() bool {
		select {
		case <-o.done:
			return true
		default:
			return passed() > before
		}
	})
}

// Samples returns the changes up to now.
func (o *Observer) Samples() []judge.Sample {
	o.awaitPass()
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.samples)
}

// Await waits until a sample matches, which may have been in the past, and returns the first
// one. what names it in the error if there is none.
func (o *Observer) Await(what string, cond func(judge.Sample) bool) (found judge.Sample) {
	o.run.Until(what, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		i := slices.IndexFunc(o.samples, cond)
		if i < 0 {
			return false
		}
		found = o.samples[i]
		return true
	})
	return found
}
