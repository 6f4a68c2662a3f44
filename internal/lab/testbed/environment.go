// Package testbed is what experiments run on: real servers, API processes, a voucher on sale and its buyers, and an
// observer of the lock store.
//
// An [Environment] has the servers and processes that experiments share. Each is started when it is first needed, and
// all are gone after [Environment.Close], or when the program dies. [Environment.WithRig] creates a [Rig] for one
// experiment and cleans up after it.
//
// A scenario is a linear script without error handling. As in a test, a step that cannot be done ends it: [Rig.Fatalf]
// panics with a value that only the environment recovers. Call what can fail from the scenario's own goroutine, or from
// one started by [Rig.Go].
//
// # Real and embedded servers
//
// If redis-server and mariadbd are installed, API processes share them. Otherwise, or if [Options].Embedded asks for
// it, there is one API process with SQLite and an in-process Redis. Experiments that need Redis nodes then get
// processes of the laboratory's own Redis; those that need MariaDB, ZooKeeper or redis-server itself are skipped.
package testbed

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/database"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/load"
	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
	"seckill/internal/testkit"
)

// Options say how experiments are run.
type Options struct {
	// Instances is how many API processes serve a load if an experiment does not say. Default
	// 2.
	Instances int
	// Duration is the longest time in which new buyers come. Default 3 s.
	Duration time.Duration
	// Seed makes the load and the faults repeatable. Default 1.
	Seed int64
	// APIBinary is the path of the service's binary. Default: "api" beside this program, else built from source with
	// the go command.
	APIBinary string
	// Embedded uses no real servers.
	Embedded bool
	// Log receives what experiments log. Default: discarded.
	Log *slog.Logger
	// Notice receives messages about work that takes long, also without a terminal.
	Notice func(what i18n.Text)
	// Progress receives what happens now, for a terminal. It may be called from several goroutines.
	Progress func(what i18n.Text)
	// Started receives each run as it begins, to be followed with [Rig.SoFar].
	Started func(*Rig)
}

// Defaults returns the default options.
func Defaults() Options { return Options{Instances: 2, Duration: 3 * time.Second, Seed: 1} }

// Environment has what experiments share. Several experiments may use it at once.
type Environment struct {
	options Options
	limit   time.Duration // of an experiment
	root    *Rig          // owns what is shared
	client  *load.Client
	secret  string
	folder  string
	lastID  atomic.Int64

	binary   lazy[string]
	maria    lazy[testkit.Database]
	db       lazy[*database.DB]
	ownRedis lazy[*testkit.RedisServer]
	redis    lazy[*redis.Client]
	lockers  map[lock.Store]*lazy[*lockers.Set]
	versions map[Server]*lazy[string]
	nodes    nodes
	idle     instancePool
}

// Open prepares an environment. Nothing is started yet. ctx bounds its whole life.
func Open(ctx context.Context, o Options) (*Environment, error) {
	if o.Instances < 0 || o.Duration < 0 {
		return nil, fmt.Errorf("testbed: %d instances, a duration of %v", o.Instances, o.Duration)
	}
	usual := Defaults()
	o.Instances = cmp.Or(o.Instances, usual.Instances)
	o.Duration = cmp.Or(o.Duration, usual.Duration)
	o.Seed = cmp.Or(o.Seed, usual.Seed)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(i18n.Text) {}
	}
	if o.Notice == nil {
		o.Notice = func(i18n.Text) {}
	}
	e := &Environment{
		options: o, limit: experimentLimit, client: load.NewClient(), secret: rand.Text() + rand.Text(),
		lockers: map[lock.Store]*lazy[*lockers.Set]{}, versions: map[Server]*lazy[string]{},
	}
	for _, f := range stores() {
		e.lockers[f] = &lazy[*lockers.Set]{}
	}
	for _, s := range servers() {
		e.versions[s] = &lazy[string]{}
	}
	e.root = newRig(ctx, e, "environment")
	if err := attempt(func() { e.folder = e.root.TempDir() }); err != nil {
		return nil, errors.Join(err, e.root.end())
	}
	return e, nil
}

// Options returns the options that it was opened with, including defaults.
func (e *Environment) Options() Options { return e.options }

// Close stops every server and process and removes their folders. Experiments must have ended. It also closes what
// testkit shares: a program has one environment at a time.
func (e *Environment) Close() error { return errors.Join(e.stop(), testkit.Close()) }

// stop ends what belongs to this environment only.
func (e *Environment) stop() error {
	err := e.root.end()
	e.client.Close()
	return err
}

// WithRig runs a scenario on a rig of its own and cleans up, however the scenario ends. A scenario that takes longer
// than two minutes is ended. skipped says why it could not be run here; err, why it did not come to its end.
func (e *Environment) WithRig(ctx context.Context, name string, needs []Server, scenario func(*Rig)) (skipped i18n.Text, err error) {
	return e.WithRigFor(ctx, e.limit, name, needs, scenario)
}

// WithRigFor is WithRig with another limit, for what waits for a person.
func (e *Environment) WithRigFor(
	ctx context.Context, limit time.Duration, name string, needs []Server, scenario func(*Rig),
) (skipped i18n.Text, err error) {
	e.options.Progress(i18n.Plain(name))
	r := newRig(ctx, e, name)
	r.stopwatch = startStopwatch(limit, r.cancel)
	if e.options.Started != nil {
		e.options.Started(r)
	}
	err = attempt(func() {
		r.Require(needs...)
		scenario(r)
	})
	if end, ok := errors.AsType[*abort](err); ok && end.skipped {
		skipped, err = Reason(end.err), nil
	}
	err = errors.Join(err, r.end())
	r.stopwatch.stop()
	if err != nil && !errors.Is(err, context.DeadlineExceeded) && errors.Is(context.Cause(r.ctx), context.DeadlineExceeded) {
		err = errors.Join(context.Cause(r.ctx), err) // a scenario may have seen only that its context had ended
	}
	if err != nil {
		return i18n.Text{}, err
	}
	return skipped, nil
}

// nextID returns an id for a row that is written without the service. The service's own ids are far greater.
func (e *Environment) nextID() int64 {
	for {
		last := e.lastID.Load()
		next := max(last+1, time.Now().UnixMicro())
		if e.lastID.CompareAndSwap(last, next) {
			return next
		}
	}
}

// NextID returns an id for a row that the scenario writes without the service.
func (r *Rig) NextID() int64 { return r.env.nextID() }

// lazy is a value that is created when it is first needed. A failure is remembered: a creation that fails after a
// minute is not repeated for each experiment.
type lazy[T any] struct {
	mu    sync.Mutex
	made  bool
	value T
	err   error
}

// get fails the experiment if the value could not be created.
func (l *lazy[T]) get(r *Rig, produce func() T) T {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.made {
		l.err = attempt(func() { l.value = produce() })
		l.made = true
	}
	r.Must(l.err)
	return l.value
}

// stores lists what locks are kept in, other than the process.
func stores() []lock.Store {
	return []lock.Store{lock.InRedis, lock.InNodes, lock.InMySQL, lock.InZooKeeper}
}

// LockStore names the store in which a mechanism keeps its locks; "" if that is the process itself.
func LockStore(mechanism string) string {
	return map[lock.Store]string{
		lock.InRedis: "Redis", lock.InNodes: "Redis nodes", lock.InMySQL: "MariaDB", lock.InZooKeeper: "ZooKeeper",
	}[lock.StoreOf(mechanism)]
}

// ServersOf returns what a mechanism needs.
func ServersOf(mechanism string) []Server {
	return map[lock.Store][]Server{ // the embedded servers have Redis
		lock.InNodes: {Redis, Nodes}, lock.InMySQL: {Database}, lock.InZooKeeper: {ZooKeeper},
	}[lock.StoreOf(mechanism)]
}

// KeyPrefix is what the API processes put before every key in Redis and every name of GET_LOCK. Clients that use the
// same locks use the same prefix.
const KeyPrefix = "seckill:"

// Lockers opens mechanisms in this process for this experiment, for example to observe servers of its own.
func (r *Rig) Lockers(servers lockers.Servers, config lockers.Config) *lockers.Set {
	set, err := lockers.Open(servers, config)
	r.Must(err)
	r.Cleanup(func() { r.Must(set.Close()) })
	return set
}

// Inspector inspects the store of a mechanism on the shared servers; nil if there is no such store, or the mechanism
// cannot be inspected.
func (r *Rig) Inspector(mechanism string) lock.Inspector {
	store := lock.StoreOf(mechanism)
	if store == lock.InProcess {
		return nil
	}
	set := r.env.lockers[store].get(r, func() *lockers.Set { return r.openShared(store) })
	locker, err := set.Locker(mechanism)
	r.Must(err)
	inspector, _ := locker.(lock.Inspector)
	return inspector
}

func (r *Rig) openShared(store lock.Store) *lockers.Set {
	root := r.env.root
	var servers lockers.Servers
	switch store {
	case lock.InRedis:
		servers.Redis = r.RedisClient()
	case lock.InNodes:
		for _, addr := range r.Nodes(sharedNodes) {
			client := redis.NewClient(&redis.Options{Addr: addr})
			root.Cleanup(func() { r.Must(client.Close()) })
			servers.Nodes = append(servers.Nodes, client)
		}
	case lock.InMySQL:
		db := r.DB()
		servers.MySQL, servers.Rows = db.LockPool(), db.RowPool()
	case lock.InZooKeeper:
		servers.ZooKeeper = []string{r.ZooKeeper().Addr()}
	}
	return root.Lockers(servers, lockers.Config{Prefix: KeyPrefix, Log: r.env.options.Log})
}

// apiInspector asks an embedded API process, whose store is not reachable otherwise.
type apiInspector struct {
	client    *load.Client
	at        load.Target
	mechanism string
}

// Inspect implements [lock.Inspector].
func (r apiInspector) Inspect(ctx context.Context, key string) (lock.State, error) {
	var answer struct {
		Code  string `json:"code"`
		Locks []struct {
			Owner  lock.Owner `json:"owner"`
			Count  int        `json:"count"`
			Shared bool       `json:"shared"`
			Token  uint64     `json:"token,string"`
			TTLMS  *int64     `json:"ttl_ms"`
		} `json:"locks"`
	}
	path := "/api/v1/locks/" + url.PathEscape(key) + "?lock=" + url.QueryEscape(r.mechanism)
	status, err := r.client.Do(ctx, r.at, http.MethodGet, path, 0, nil, &answer)
	switch {
	case err != nil:
		return lock.State{}, err
	case status != http.StatusOK || len(answer.Locks) != 1:
		return lock.State{}, &statusError{path: path, status: status, code: answer.Code}
	}
	l := answer.Locks[0]
	state := lock.State{Owner: l.Owner, Count: l.Count, Shared: l.Shared, Token: l.Token, TTL: lock.NoExpiry, Waiting: lock.WaitingUnknown}
	if l.TTLMS != nil {
		state.TTL = time.Duration(*l.TTLMS) * time.Millisecond
	}
	return state, nil
}
