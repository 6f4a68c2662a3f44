package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// bench measures on one server.
type bench struct {
	addr    string
	version string
	stats   *redis.Client // asks the server what it did; no subject uses it
	run     string        // distinguishes the keys of this run from those of others
	count   int           // of measurements; distinguishes the keys of each
}

func newBench(ctx context.Context, addr string) (*bench, error) {
	b := &bench{
		addr:  addr,
		stats: redis.NewClient(&redis.Options{Addr: addr}),
		run:   strconv.FormatUint(rand.Uint64(), 36),
	}
	info := b.stats.InfoMap(ctx, "server")
	if err := info.Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("ask the server at %s: %w", addr, err), b.stats.Close())
	}
	b.version = "redis-server " + info.Item("Server", "redis_version")
	return b, nil
}

func (b *bench) close() { _ = b.stats.Close() }

// measure lets the workers of a scenario use a subject. Grants during the warm-up do not count; a wait that began in it
// counts from its beginning. Counting commands costs a little speed, so it has measurements of its own.
func (b *bench) measure(ctx context.Context, s scenario, sub subject, warmUp, duration time.Duration, counting bool) (*measurement, error) {
	var sent counter
	to := target{addr: b.addr}
	if counting {
		to.dial = sent.dial
	}
	lockers, err := openLockers(s, sub, to)
	defer func() {
		for _, l := range lockers {
			_ = l.close() // the measurement is over, and the keys are never used again
		}
	}()
	if err != nil {
		return nil, err
	}
	b.count++
	names := s.names(fmt.Sprintf("bench-%s-%d", b.run, b.count))
	runtime.GC() // what the one before has left is not to be swept during this one

	ctx, stop := context.WithCancel(ctx) // without a deadline: some libraries shorten their leases to fit one
	defer stop()
	r := &running{scenario: s, names: names, inside: make([]atomic.Int32, len(names))}
	ended := r.start(ctx, lockers)

	w, err := b.window(ctx, r, warmUp, duration, &sent)
	stop()
	select {
	case <-ended:
	case <-time.After(waitLimit):
		return nil, fmt.Errorf("workers are still there %v after their context ended", waitLimit)
	}
	if err != nil {
		return nil, err
	}
	m := &measurement{}
	m.fill(r.tallies, w.took)
	if err := r.firstError(m.Grants == 0); err != nil {
		return nil, err
	}
	if counting {
		m.Sent = float64(w.sent) / float64(m.Grants)
		m.Executed = float64(w.executed) / float64(m.Grants)
	}
	return m, nil
}

// openLockers returns one locker, or one for each worker. On an error it returns those that are open.
func openLockers(s scenario, sub subject, to target) ([]*locker, error) {
	n := 1
	if s.separate {
		n = s.workers
	}
	var lockers []*locker
	for range n {
		l, err := sub.open(to)
		if err != nil {
			return lockers, err
		}
		lockers = append(lockers, l)
	}
	return lockers, nil
}

// window is the time in which grants count, with the commands of that time.
type window struct {
	took           time.Duration // the measured time, a little longer on a busy machine
	sent, executed int64
}

// window waits for the warm-up and the measured time to pass. The counts are nested: grants count in a part of the time
// in which sent commands do, and these in a part of the time in which executed ones do. So no grant lacks its commands,
// however long a busy server takes to tell its count.
func (b *bench) window(ctx context.Context, r *running, warmUp, duration time.Duration, sent *counter) (w window, err error) {
	if err := sleep(ctx, warmUp); err != nil {
		return w, err
	}
	executedBefore, err := b.executed(ctx)
	if err != nil {
		return w, err
	}
	sentBefore := sent.commands.Load()
	opened := time.Now()
	r.open.Store(true)
	if err := sleep(ctx, duration); err != nil {
		return w, err
	}
	r.open.Store(false)
	w.took = time.Since(opened)
	w.sent = sent.commands.Load() - sentBefore
	w.executed, err = b.executed(ctx)
	w.executed -= executedBefore
	return w, err
}

// sleep waits, or returns the error of ctx when that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// executed asks the server how many commands it has executed.
func (b *bench) executed(ctx context.Context) (int64, error) {
	stats, err := b.stats.Info(ctx, "commandstats").Result()
	return executed(stats), err
}

// executed sums the calls in INFO commandstats, except those of INFO itself. The server counts the commands of scripts
// as well as the scripts.
func executed(stats string) int64 {
	var sum int64
	for line := range strings.Lines(stats) {
		name, rest, found := strings.Cut(line, ":calls=")
		if !found || name == "cmdstat_info" {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		if err == nil {
			sum += n
		}
	}
	return sum
}

// running is a measurement in progress.
type running struct {
	scenario scenario
	names    []string
	inside   []atomic.Int32 // how many hold each key
	open     atomic.Bool    // grants count
	tallies  []workerResult // of each worker, valid when all have ended
}

// workerResult is what one worker measured.
type workerResult struct {
	waits        []time.Duration // of the acquisitions that were granted in the time that counts
	unfinished   time.Duration   // the wait that the end cut short
	gaveUp       int             // the library's own limit was over
	violations   int             // another holder was inside
	acquireError error           // the first
	releaseError error           // the first
}

// start starts all workers at once. The channel is closed when all have ended.
func (r *running) start(ctx context.Context, lockers []*locker) <-chan struct{} {
	var all sync.WaitGroup
	r.tallies = make([]workerResult, r.scenario.workers)
	begin, ended := make(chan struct{}), make(chan struct{})
	for id := range r.scenario.workers {
		all.Go(func() {
			<-begin
			r.work(ctx, lockers[id%len(lockers)], id)
		})
	}
	go func() {
		all.Wait()
		close(ended)
	}()
	close(begin)
	return ended
}

// work is the loop of a worker.
func (r *running) work(ctx context.Context, l *locker, id int) {
	var t workerResult
	defer func() { r.tallies[id] = t }() // once: neighbours in memory would slow each other down
	random := rand.New(rand.NewPCG(uint64(id), 0))
	for ctx.Err() == nil {
		key := r.scenario.pick(id, random)
		asked := time.Now()
		release := r.acquire(ctx, l, r.names[key], &t)
		if release == nil {
			t.unfinished = time.Since(asked)
			return
		}
		if r.open.Load() {
			t.waits = append(t.waits, time.Since(asked))
		}
		// A lock may end with the context it was acquired under, so that what is seen after that proves nothing.
		if r.inside[key].Add(1) != 1 && ctx.Err() == nil {
			t.violations++
		}
		if r.scenario.hold > 0 {
			time.Sleep(r.scenario.hold)
		}
		r.inside[key].Add(-1)
		if err := release(); err != nil && ctx.Err() == nil && t.releaseError == nil {
			t.releaseError = err
		}
		if r.scenario.think > 0 {
			time.Sleep(r.scenario.think)
		}
	}
}

// acquire tries until the lock is granted. It returns nil when ctx has ended.
func (r *running) acquire(ctx context.Context, l *locker, key string, t *workerResult) func() error {
	for {
		release, err := l.acquire(ctx, key)
		switch {
		case err == nil:
			return release
		case ctx.Err() != nil:
			return nil
		case t.acquireError == nil:
			t.acquireError = err
		}
		t.gaveUp++
		time.Sleep(time.Millisecond) // a server that is down would be asked in a busy loop
	}
}

// firstError returns the first error of a release, and of the acquisitions if none was granted. Otherwise an
// acquisition that failed is a wait that the library gave up.
func (r *running) firstError(noGrant bool) error {
	for _, t := range r.tallies {
		switch {
		case t.releaseError != nil:
			return fmt.Errorf("release: %w", t.releaseError)
		case noGrant && t.acquireError != nil:
			return fmt.Errorf("acquire: %w", t.acquireError)
		}
	}
	if noGrant {
		return errNoGrant
	}
	return nil
}

var errNoGrant = errors.New("nobody got the lock")
