package lockclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/database"
	"seckill/internal/eventlog"
	"seckill/internal/lab/flawed"
	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
	"seckill/internal/order"
)

// child is the state of the child process.
type child struct {
	config Config
	log    *slog.Logger
	// life ends with the process. A lease or an open transaction outlives the request that
	// created it: it lives under this context.
	life    context.Context
	lockers *lockers.Set
	servers lockers.Servers
	nodes   []*redis.Client
	rec     *eventlog.Recorder // nil: no events are recorded
	store   order.Store        // nil without a database
	owners  *lock.Owners
	closers []func() error
	work    sync.WaitGroup // open transactions

	mu           sync.Mutex
	last         int
	named        map[string]lock.Owner
	leases       map[Lease]*held
	transactions map[string]*transaction
	flawed       map[flawedLock]lock.Locker
}

// flawedLock is a program of the documents that goes by the name of a mechanism.
type flawedLock struct {
	listing   flawed.Name
	mechanism string
}

// openChild connects to the servers of a configuration, given as JSON.
func openChild(ctx context.Context, config []byte, logs io.Writer) (_ *child, err error) {
	c := &child{
		life: ctx, owners: lock.NewOwners(),
		named: map[string]lock.Owner{}, leases: map[Lease]*held{}, transactions: map[string]*transaction{},
		flawed: map[flawedLock]lock.Locker{},
	}
	if err := decodeStrict(config, &c.config); err != nil {
		return nil, invalid("the configuration is not understood: %v", err)
	}
	if err := c.config.Validate(); err != nil {
		return nil, err
	}
	c.log = slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelWarn})).With(slog.String("client", c.config.Name))
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	var rec *eventlog.Recorder
	if c.config.EventFile != "" && !c.config.Untraced {
		if rec, err = eventlog.Open(c.config.EventFile, c.config.Name); err != nil {
			return nil, err
		}
		c.closers = append(c.closers, rec.Close)
	}
	servers := lockers.Servers{ZooKeeper: c.config.ZooKeeperAddrs}
	c.openRedis(&servers)
	if err := c.openDatabase(ctx, &servers, rec); err != nil {
		return nil, err
	}
	c.lockers, err = lockers.Open(servers, lockers.Config{
		Prefix: c.config.Prefix, Watchdog: c.config.Watchdog, NodeTimeout: c.config.NodeTimeout,
		ZooKeeperSession: c.config.ZKSession, Log: c.log,
		Wrap: func(name string, l lock.Locker) lock.Locker {
			if rec == nil {
				return l
			}
			return eventlog.Locker(name, l, rec)
		},
	})
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, c.lockers.Close)
	c.servers, c.rec = servers, rec
	return c, nil
}

// openRedis creates the clients. They do not connect yet: an experiment may be about a server
// that is down.
func (c *child) openRedis(servers *lockers.Servers) {
	timeout := c.config.RedisTimeout
	if timeout == 0 {
		timeout = 2 * time.Second
	}
	if len(c.config.RedisAddrs) > 0 {
		servers.Redis = redis.NewUniversalClient(&redis.UniversalOptions{
			Addrs: c.config.RedisAddrs, MasterName: c.config.RedisMaster, ClientName: c.config.Name,
			ContextTimeoutEnabled: true,
			DialTimeout:           timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
			MaxRetries: 2, DialerRetries: 1, PoolSize: 64,
		})
		c.closers = append(c.closers, servers.Redis.Close)
	}
	for _, addr := range c.config.NodeAddrs {
		node := redis.NewClient(&redis.Options{
			Addr: addr, ClientName: c.config.Name,
			ContextTimeoutEnabled: true,
			DialTimeout:           timeout, ReadTimeout: timeout, WriteTimeout: timeout,
			DialerRetries: 1, PoolSize: 64,
		})
		servers.Nodes, c.nodes = append(servers.Nodes, node), append(c.nodes, node)
		c.closers = append(c.closers, node.Close)
	}
}

func (c *child) openDatabase(ctx context.Context, servers *lockers.Servers, rec *eventlog.Recorder) error {
	if c.config.MySQLDSN == "" && c.config.SQLite == "" {
		return nil
	}
	db, err := database.Open(ctx, database.Config{MySQL: c.config.MySQLDSN, SQLite: c.config.SQLite, Logger: c.log})
	if err != nil {
		return err
	}
	c.closers = append(c.closers, db.Close)
	servers.MySQL, servers.Rows = db.LockPool(), db.RowPool()
	c.store = db.Orders()
	if rec != nil {
		c.store = eventlog.Store(c.store, rec)
	}
	return nil
}

// close closes what was opened, last first.
func (c *child) close() error {
	c.work.Wait()
	var failed []error
	for _, closeOne := range slices.Backward(c.closers) {
		failed = append(failed, closeOne())
	}
	return errors.Join(failed...)
}

// handler executes a request. It may return a result together with an error.
type handler func(ctx context.Context, with json.RawMessage) (any, error)

// handlers returns the handler of each request by name.
func (c *child) handlers() map[string]handler {
	return map[string]handler{
		doAcquire:   handle(c.acquire),
		doRelease:   handle(c.release),
		doExtend:    handle(c.extend),
		doAbandon:   handle(c.abandon),
		doStatus:    handle(c.status),
		doAwaitLoss: handle(c.awaitLoss),
		doInspect:   handle(c.inspect),
		doRead:      handle(c.read),
		doWrite:     handle(c.write),
		doSell:      handle(c.sell),
		doPanic:     handle(c.panic),
		doNest:      handle(c.nest),
		doLoop:      handle(c.loop),
	}
}

// handle makes a handler of a function with typed arguments.
func handle[P, R any](do func(context.Context, P) (R, error)) handler {
	return func(ctx context.Context, with json.RawMessage) (any, error) {
		var p P
		if err := decodeStrict(with, &p); err != nil {
			return nil, invalid("what it is to be done with is not understood: %v", err)
		}
		return do(ctx, p)
	}
}

// noResult is the result of a request that has none.
type noResult struct{}

// locker returns the mechanism, or its readers' side.
func (c *child) locker(name string, shared bool) (lock.Locker, error) {
	if shared {
		return c.lockers.Reader(name)
	}
	return c.lockers.Locker(name)
}

// lockerFor returns what an acquisition asks for.
func (c *child) lockerFor(what Acquire) (lock.Locker, error) {
	base, err := c.locker(what.Lock, what.Shared)
	if err != nil || !what.Program.InLock() {
		return base, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id := flawedLock{what.Program, what.Lock}
	if l, ok := c.flawed[id]; ok {
		return l, nil
	}
	// Not base: an imitation that uses it would be recorded twice.
	plain, err := lockers.Open(lockers.Servers{Redis: c.servers.Redis, Nodes: c.servers.Nodes},
		lockers.Config{Prefix: c.config.Prefix, Watchdog: c.config.Watchdog, NodeTimeout: c.config.NodeTimeout})
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, plain.Close)
	inner, err := plain.Locker(what.Lock)
	if err != nil {
		return nil, err
	}
	l, err := flawed.Open(what.Program, what.Lock, flawed.Config{
		Prefix: c.config.Prefix, Redis: c.servers.Redis, Nodes: c.nodes, NodeTimeout: c.config.NodeTimeout,
		Watchdog: c.config.Watchdog, Base: inner,
	})
	if err != nil {
		return nil, err
	}
	if c.rec != nil {
		l = eventlog.Locker(what.Lock, l, c.rec)
	}
	c.flawed[id] = l
	return l, nil
}

// name returns a name that no other client of the experiment uses.
func (c *child) name() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	return c.config.Name + "/" + strconv.Itoa(c.last)
}

// owner returns the owner of that name.
func (c *child) owner(name string) lock.Owner {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok := c.named[name]
	if !ok {
		o = c.owners.New()
		c.named[name] = o
	}
	return o
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{lock.ErrInvalid}, args...)...)
}
