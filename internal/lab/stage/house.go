package stage

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/database"
	"seckill/internal/lab/load"
	"seckill/internal/lock/lockers"
	"seckill/internal/testkit"
)

// Options say how experiments are played.
type Options struct {
	// Instances is how many API processes stand behind a load where an experiment
	// leaves it open. Default 2.
	Instances int
	// Duration is the longest time in which new buyers come. Default 3 s.
	Duration time.Duration
	// Seed gives the same load and the same faults. Default 1.
	Seed int64
	// APIBinary is the path of the service's binary. Default: "api" beside this
	// program, else built from source with the go command.
	APIBinary string
	// Embedded leaves real servers alone.
	Embedded bool
	// Log is told what experiments log. Default: nobody.
	Log *slog.Logger
	// Progress is told what happens now, for somebody who waits. It may be called from
	// several goroutines.
	Progress func(what string)
}

// Defaults are the options that nobody has to say.
func Defaults() Options { return Options{Instances: 2, Duration: 3 * time.Second, Seed: 1} }

// House has what experiments share. It is safe for use by several of them at once.
type House struct {
	options Options
	root    *Stage // what is shared belongs to it
	client  *load.Client
	secret  string
	folder  string
	lastID  atomic.Int64

	binary   lazy[string]
	maria    lazy[testkit.Database]
	db       lazy[*database.DB]
	redis    lazy[*redis.Client]
	lockers  map[family]*lazy[*lockers.Set]
	versions map[Server]*lazy[string]
	nodes    nodes
	pool     pool
}

// Open prepares a house. Nothing is started yet. ctx bounds its whole life.
func Open(ctx context.Context, o Options) (*House, error) {
	if o.Instances < 0 || o.Duration < 0 {
		return nil, fmt.Errorf("stage: %d instances, a duration of %v", o.Instances, o.Duration)
	}
	usual := Defaults()
	o.Instances = cmp.Or(o.Instances, usual.Instances)
	o.Duration = cmp.Or(o.Duration, usual.Duration)
	o.Seed = cmp.Or(o.Seed, usual.Seed)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	h := &House{
		options: o, client: load.NewClient(), secret: rand.Text() + rand.Text(),
		lockers: map[family]*lazy[*lockers.Set]{}, versions: map[Server]*lazy[string]{},
	}
	for _, f := range families() {
		h.lockers[f] = &lazy[*lockers.Set]{}
	}
	for _, s := range servers() {
		h.versions[s] = &lazy[string]{}
	}
	h.root = newStage(ctx, h, "house")
	if err := attempt(func() { h.folder = h.root.TempDir() }); err != nil {
		return nil, errors.Join(err, h.root.end())
	}
	return h, nil
}

// Options are those that it was opened with, and the defaults where they said nothing.
func (h *House) Options() Options { return h.options }

// Close stops every server and process and removes their folders. Experiments must
// have ended. It ends what testkit shares, too: a program has one house at a time.
func (h *House) Close() error { return errors.Join(h.leave(), testkit.Close()) }

// leave ends what is this house's alone.
func (h *House) leave() error {
	err := h.root.end()
	h.client.Close()
	return err
}

// Play opens a stage for an experiment, plays a scene on it and clears it, whatever
// becomes of the scene. skipped says why it could not be played here; err, why it came
// to no end.
func (h *House) Play(ctx context.Context, name string, needs []Server, scene func(*Stage)) (skipped string, err error) {
	h.options.Progress(name)
	s := newStage(ctx, h, name)
	err = attempt(func() {
		for _, server := range needs {
			s.Need(server)
		}
		scene(s)
	})
	if end, ok := errors.AsType[*ending](err); ok && end.skipped {
		skipped, err = end.Error(), nil
	}
	if err = errors.Join(err, s.end()); err != nil {
		return "", err
	}
	return skipped, nil
}

// nextID is an id for what is written past the service. The service's own are far
// above.
func (h *House) nextID() int64 {
	for {
		last := h.lastID.Load()
		next := max(last+1, time.Now().UnixMicro())
		if h.lastID.CompareAndSwap(last, next) {
			return next
		}
	}
}

// lazy is made when it is first asked for. A failure is remembered: what takes a minute
// to fail is not tried for each experiment.
type lazy[T any] struct {
	mu    sync.Mutex
	made  bool
	value T
	err   error
}

// get fails the experiment where there is nothing to be had.
func (l *lazy[T]) get(s *Stage, produce func() T) T {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.made {
		l.err = attempt(func() { l.value = produce() })
		l.made = true
	}
	s.must(l.err)
	return l.value
}
