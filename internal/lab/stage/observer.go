package stage

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"seckill/internal/lab/judge"
	"seckill/internal/lock"
	"seckill/internal/trace"
)

// Observer watches what a lock's store holds under keys: it asks every millisecond, one
// question at a time, and keeps the changes.
type Observer struct {
	stage *Stage
	of    lock.Inspector
	keys  []string
	stop  context.CancelFunc
	done  chan struct{}

	mu      sync.Mutex
	passes  int
	last    map[string]judge.Sample
	samples []judge.Sample
}

const (
	// lookTimeout bounds one question: a store that hangs is known to.
	lookTimeout = 500 * time.Millisecond
	// renewed is by how much later a key is to end that was renewed. Less is the
	// inaccuracy of asking.
	renewed = 20 * time.Millisecond
)

// Observe watches keys until the experiment ends. A mechanism that cannot be asked, and
// nil, give an observer that sees nothing.
func (s *Stage) Observe(of lock.Inspector, keys ...string) *Observer {
	ctx, cancel := context.WithCancel(s.ctx)
	o := &Observer{stage: s, of: of, keys: keys, stop: cancel, done: make(chan struct{}), last: map[string]judge.Sample{}}
	if of == nil || len(keys) == 0 {
		close(o.done)
		return o
	}
	go o.watch(ctx)
	s.Cleanup(o.Stop)
	o.settle() // what is done from now on is seen
	return o
}

// Stop ends it. What it saw remains.
func (o *Observer) Stop() {
	o.stop()
	<-o.done
}

func (o *Observer) watch(ctx context.Context) {
	defer close(o.done)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		for _, key := range o.keys {
			if !o.look(ctx, key) {
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

// look asks once. It reports false when there is nothing more to be seen.
func (o *Observer) look(ctx context.Context, key string) bool {
	asking, cancel := context.WithTimeout(ctx, lookTimeout)
	state, err := o.of.Inspect(asking, key)
	cancel()
	switch {
	case ctx.Err() != nil, errors.Is(err, errors.ErrUnsupported):
		return false
	case err != nil:
		o.note(judge.Sample{At: now(), Key: key, Err: err.Error()})
	default:
		o.note(judge.Sample{At: now(), Key: key, Stored: *trace.Seen(state)})
	}
	return true
}

func (o *Observer) note(seen judge.Sample) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if before, known := o.last[seen.Key]; known && same(before, seen) {
		return
	}
	o.last[seen.Key] = seen
	o.samples = append(o.samples, seen)
}

// same says whether nothing has changed, time aside.
func same(a, b judge.Sample) bool {
	if (a.Err != "") != (b.Err != "") || a.Stored.Owner != b.Stored.Owner || a.Stored.Token != b.Stored.Token {
		return false
	}
	endA, endsA := end(a)
	endB, endsB := end(b)
	return endsA == endsB && (endA-endB).Abs() < renewed
}

// end is when what was seen ends by itself, since 1970.
func end(s judge.Sample) (at time.Duration, ends bool) {
	if s.Stored.TTLMS == nil {
		return 0, false
	}
	return time.Duration(s.At) + time.Duration(*s.Stored.TTLMS*float64(time.Millisecond)), true
}

// settle waits until every key has been asked for once more.
func (o *Observer) settle() {
	passed := func() int {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.passes
	}
	before := passed()
	if before > 0 {
		before++ // the pass under way may have begun before
	}
	o.stage.Until("another look at the lock's store", func() bool {
		select {
		case <-o.done:
			return true
		default:
			return passed() > before
		}
	})
}

// Samples are the changes up to now.
func (o *Observer) Samples() []judge.Sample {
	o.settle()
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.samples)
}

// Await waits until the store held something, which may be over by then, and returns the
// first time it did. What is awaited is said where it never does.
func (o *Observer) Await(what string, cond func(judge.Sample) bool) (found judge.Sample) {
	o.stage.Until(what, func() bool {
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
