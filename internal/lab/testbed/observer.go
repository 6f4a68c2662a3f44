package testbed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab/judge"
	"seckill/internal/lock"
	"seckill/internal/testkit"
)

// Observer samples what a lock store holds under keys: it asks every millisecond, or as [Rig.SampleEvery] says, one
// request at a time, and keeps the changes.
type Observer struct {
	run       *Rig
	every     time.Duration
	inspector lock.Inspector
	keys      []string
	server    string // one of several, by name; "": see [Rig.SoFar]
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
	// minRenewal is the least by which a renewal moves the expiry of a key. A smaller difference is measurement error.
	minRenewal = 20 * time.Millisecond
)

// SampleEvery sets how often the observers ask that begin after it. Asking every millisecond takes a fifth of a
// processor core, which is too much for what lasts minutes.
func (r *Rig) SampleEvery(pause time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sampleEvery = pause
}

// Observe samples keys until the experiment ends. Without an inspector, or with one that does not support it, the
// observer sees nothing.
func (r *Rig) Observe(of lock.Inspector, keys ...string) *Observer {
	return r.ObserveServer("", of, keys...)
}

// ObserveServer samples what one of several servers holds, which says nothing about the lock: in [Rig.SoFar] it has a
// lane of its own.
func (r *Rig) ObserveServer(name string, of lock.Inspector, keys ...string) *Observer {
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
	asked := now()
	state, err := o.inspector.Inspect(asking, key)
	cancel()
	switch {
	case ctx.Err() != nil, errors.Is(err, errors.ErrUnsupported):
		return false
	case err != nil:
		o.record(judge.Sample{At: now(), Key: key, Err: err.Error()})
	default:
		s := judge.Sample{At: now(), Key: key, Stored: *eventlog.StoredFrom(state)}
		if time.Duration(s.At-asked) < minRenewal/2 || !o.sameHolder(s) {
			o.record(s)
		}
	}
	return true
}

// sameHolder reports whether a sample differs from the last one in nothing but when the lock expires. Of an answer that
// took long nobody knows when its time to live was read: it says nothing about a renewal.
func (o *Observer) sameHolder(seen judge.Sample) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	before, known := o.last[seen.Key]
	return known && before.Err == "" && before.Stored.Owner == seen.Stored.Owner && before.Stored.Token == seen.Stored.Token
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

// Await waits until a sample matches, which may have been in the past, and returns the first one. what names it in the
// error if there is none.
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

// followDelay is how far behind the present [Rig.SoFar] is. An event is written a moment after its time, and files are
// read one after the other: without the delay a grant could be known before the release that it followed.
const followDelay = int64(100e6)

// Follow adds a source of evidence that can be asked while the experiment runs. The source must not fail the
// experiment: it adds what it knows.
func (r *Rig) Follow(source func(*judge.Evidence)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sources = append(r.sources, source)
}

// SoFar is what is known of the experiment up to a tenth of a second ago: what its processes have recorded, what the
// observers have seen, and what was done to processes and servers. It may be called from any goroutine. What the
// database holds is not in it.
func (r *Rig) SoFar() judge.Evidence {
	r.mu.Lock()
	sources, observers := slices.Clone(r.sources), slices.Clone(r.observers)
	r.mu.Unlock()
	ev := judge.Evidence{End: now() - followDelay, Database: "SQLite", Faults: r.Faults()}
	if r.RealServers() {
		ev.Database = "MariaDB"
	}
	for _, add := range sources {
		add(&ev)
	}
	for i, o := range observers {
		ev.Samples = append(ev.Samples, o.soFar(sameKey(observers, i))...)
	}
	return ev.Until(ev.End)
}

// sameKey names the server of an observer, which may be named already, or if several of those that are not sample one
// key: one of several servers says nothing about the lock.
func sameKey(observers []*Observer, i int) (server string) {
	if observers[i].server != "" {
		return observers[i].server
	}
	number, of := 1, 0
	for j, o := range observers {
		if o.server != "" || len(o.keys) == 0 || o.keys[0] != observers[i].keys[0] {
			continue
		}
		if of++; j < i {
			number++
		}
	}
	if of == 1 {
		return ""
	}
	return fmt.Sprintf("store %d", number)
}

// soFar returns the changes up to now, without waiting for another look.
func (o *Observer) soFar(server string) []judge.Sample {
	o.mu.Lock()
	defer o.mu.Unlock()
	samples := slices.Clone(o.samples)
	for i := range samples {
		samples[i].Server = server
	}
	return samples
}

// addTo adds what the process has recorded, and its death.
func (i *Instance) addTo(ev *judge.Evidence) {
	if events, err := i.Events(); err == nil {
		ev.Events = append(ev.Events, events...)
	}
	ev.Deaths = append(ev.Deaths, i.deaths()...)
}

// Commands counts how often a redis-server has executed each command since its start, including commands in scripts.
type Commands map[string]int64

// Commands asks a redis-server; nil is the shared one. The difference of two answers is what was executed in between,
// including the requests of an [Observer] and of processes that record events: see [Untraced].
func (r *Rig) Commands(of *testkit.RedisServer) Commands {
	client := r.RedisClient() // already connected, so that asking costs no further commands
	if of != nil {
		client = of.Client(r)
	}
	info := client.InfoMap(r.ctx, "commandstats")
	r.Must(info.Err())
	c := Commands{}
	for name, stats := range info.Val()["Commandstats"] {
		calls, _, _ := strings.Cut(strings.TrimPrefix(stats, "calls="), ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		r.Must(err)
		c[strings.TrimPrefix(name, "cmdstat_")] = n
	}
	return c
}

// Since returns what was executed after an earlier answer, without the INFO commands themselves.
func (c Commands) Since(earlier Commands) Commands {
	came := maps.Clone(c)
	for name, n := range earlier {
		came[name] -= n
	}
	maps.DeleteFunc(came, func(name string, n int64) bool { return n == 0 || name == "info" })
	return came
}

// Total is the sum over all commands.
func (c Commands) Total() int64 {
	var total int64
	for _, n := range c {
		total += n
	}
	return total
}
