package lockclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
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

// Config says who a client is, and which servers it has. Without its server a mechanism is unknown to the client.
type Config struct {
	// Name of the process in the event log, such as "holder".
	Name string
	// Prefix goes before every key, so that experiments can share servers.
	Prefix string

	// RedisAddrs is a single node, or a cluster if there are several.
	RedisAddrs []string
	// NodeAddrs are independent Redis servers, for multi and red.
	NodeAddrs []string
	// NodeTimeout bounds a round trip to one of them. Default: the mechanism's own.
	NodeTimeout time.Duration
	// MySQLDSN or SQLite is the database, already migrated; SQLite is the path of a file.
	MySQLDSN, SQLite string
	ZooKeeperAddrs   []string

	// Watchdog is the lease of locks that are renewed. Default: each mechanism's own.
	Watchdog time.Duration
	// ZKSession is ZooKeeper's session timeout. Default: the mechanism's own.
	ZKSession time.Duration

	// EventFile is where events are appended; set by [Start].
	EventFile string
}

// MainIfChild turns this process into a client, and does not return, if [Start] has started it as one. A program whose
// experiments or tests have clients calls it first in its main or TestMain.
func MainIfChild() {
	given := os.Getenv(childEnv)
	if given == "" {
		return
	}
	var config Config
	err := json.Unmarshal([]byte(given), &config)
	if err == nil {
		err = serve(config, os.Stdin, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lockclient:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// service is what the child's methods are called by in requests.
const service = "Client"

// serve answers requests until the input ends. It releases nothing then.
func serve(config Config, in io.Reader, out io.WriteCloser, logs io.Writer) error {
	life, end := context.WithCancel(context.Background())
	defer end()
	c, err := openChild(life, config, logs)
	if err != nil {
		return err
	}
	requests := rpc.NewServer()
	if err := requests.RegisterName(service, &server{child: c, contexts: map[int64]cancellable{}}); err != nil {
		return errors.Join(err, c.close())
	}
	requests.ServeCodec(jsonrpc.NewServerCodec(conn{input{in, end}, out})) // until the last request has its answer
	return c.close()
}

// input ends the child's work when it ends: nobody is left who asked for it.
type input struct {
	io.Reader
	end func()
}

// Read implements [io.Reader].
func (i input) Read(p []byte) (int, error) {
	n, err := i.Reader.Read(p)
	if err != nil {
		i.end()
	}
	return n, err
}

// server has what a client can be asked for, as exported methods: package net/rpc runs each request in its own
// goroutine.
type server struct {
	*child

	mu       sync.Mutex
	contexts map[int64]cancellable // of all requests: a cancellation may come before or after its request
}

type cancellable struct {
	context.Context
	cancel context.CancelFunc
}

func (s *server) contextOf(id int64) cancellable {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, known := s.contexts[id]
	if !known {
		c.Context, c.cancel = context.WithCancel(s.life)
		s.contexts[id] = c
	}
	return c
}

func (s *server) Cancel(id int64, _ *noResult) error {
	s.contextOf(id).cancel()
	return nil
}

func (s *server) Ready(r Request[noResult], to *Reply[noResult]) error {
	return answer(s, r, to, func(context.Context, noResult) (noResult, error) { return noResult{}, nil })
}

func (s *server) Acquire(r Request[Acquire], to *Reply[Grant]) error {
	return answer(s, r, to, s.acquire)
}

func (s *server) Release(r Request[Lease], to *Reply[noResult]) error {
	return answer(s, r, to, s.release)
}

func (s *server) Told(r Request[Lease], to *Reply[int64]) error { return answer(s, r, to, s.told) }

func (s *server) AwaitLoss(r Request[Lease], to *Reply[int64]) error {
	return answer(s, r, to, s.awaitLoss)
}

func (s *server) Read(r Request[Read], to *Reply[Reading]) error { return answer(s, r, to, s.read) }

func (s *server) Write(r Request[Write], to *Reply[noResult]) error {
	return answer(s, r, to, s.write)
}

func (s *server) Sell(r Request[Sell], to *Reply[Sold]) error { return answer(s, r, to, s.sell) }

func (s *server) Panic(r Request[Panic], to *Reply[Panicked]) error {
	return answer(s, r, to, s.panic)
}

// answer executes a request. A panic ends the request and nothing else, as in a web server.
func answer[P, R any](s *server, r Request[P], to *Reply[R], do func(context.Context, P) (R, error)) error {
	ctx := s.contextOf(r.ID)
	defer ctx.cancel()
	defer func() {
		if p := recover(); p != nil {
			s.log.LogAttrs(ctx, slog.LevelWarn, "a request panicked", slog.Any("panic", p))
			to.Error = report(fmt.Errorf("%w: %v", ErrPanicked, p))
		}
	}()
	result, err := do(ctx, r.With)
	*to = Reply[R]{result, report(err)}
	return nil
}

// child is the state of the child process.
type child struct {
	config Config
	log    *slog.Logger
	// life ends with the process. A lease or an open transaction outlives the request that created it: it lives under
	// this context.
	life    context.Context
	lockers *lockers.Set
	servers lockers.Servers
	nodes   []*redis.Client
	rec     *eventlog.Recorder
	store   order.Store // nil without a database
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

// openChild connects to the servers of a configuration.
func openChild(ctx context.Context, config Config, logs io.Writer) (_ *child, err error) {
	c := &child{
		config: config, life: ctx, owners: lock.NewOwners(),
		named: map[string]lock.Owner{}, leases: map[Lease]*held{}, transactions: map[string]*transaction{},
		flawed: map[flawedLock]lock.Locker{},
	}
	c.log = slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelWarn})).With(slog.String("client", c.config.Name))
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.rec, err = eventlog.Open(config.EventFile, config.Name); err != nil {
		return nil, err
	}
	c.closers = append(c.closers, c.rec.Close)
	servers := lockers.Servers{ZooKeeper: c.config.ZooKeeperAddrs}
	c.openRedis(&servers)
	if err := c.openDatabase(ctx, &servers); err != nil {
		return nil, err
	}
	c.lockers, err = lockers.Open(servers, lockers.Config{
		Prefix: c.config.Prefix, Watchdog: c.config.Watchdog, NodeTimeout: c.config.NodeTimeout,
		ZooKeeperSession: c.config.ZKSession, Log: c.log,
		Wrap: func(name string, l lock.Locker) lock.Locker { return eventlog.Locker(name, l, c.rec) },
	})
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, c.lockers.Close)
	c.servers = servers
	return c, nil
}

// openRedis creates the clients. They do not connect yet: an experiment may be about a server that is down.
func (c *child) openRedis(servers *lockers.Servers) {
	const timeout = 2 * time.Second // of one attempt of a command
	if len(c.config.RedisAddrs) > 0 {
		servers.Redis = redis.NewUniversalClient(&redis.UniversalOptions{
			Addrs: c.config.RedisAddrs, ClientName: c.config.Name,
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

func (c *child) openDatabase(ctx context.Context, servers *lockers.Servers) error {
	if c.config.MySQLDSN == "" && c.config.SQLite == "" {
		return nil
	}
	db, err := database.Open(ctx, database.Config{MySQL: c.config.MySQLDSN, SQLite: c.config.SQLite, Logger: c.log})
	if err != nil {
		return err
	}
	c.closers = append(c.closers, db.Close)
	servers.MySQL, servers.Rows = db.LockPool(), db.RowPool()
	c.store = eventlog.Store(db.Orders(), c.rec)
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
	c.flawed[id] = eventlog.Locker(what.Lock, l, c.rec)
	return c.flawed[id], nil
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
