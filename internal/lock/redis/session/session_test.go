package session_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/redis/fair"
	"seckill/internal/lock/redis/fenced"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/lock/redis/rw"
	"seckill/internal/lock/redis/session"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const key = "seat"

// slack is how much the end of a lease may differ between Redis and this process.
const slack = time.Millisecond

// mechanism is the interface of every mechanism on a session.
type mechanism interface {
	lock.Locker
	lock.Inspector
	lock.ForceReleaser
	Close() error
}

// maker creates a mechanism for one process.
type maker func(session.Client, session.Config) (mechanism, error)

func newReentrant(c session.Client, config session.Config) (mechanism, error) {
	return reentrant.New(c, config)
}
func newFenced(c session.Client, config session.Config) (mechanism, error) {
	return fenced.New(c, config)
}
func newFair(c session.Client, config session.Config) (mechanism, error) { return fair.New(c, config) }
func newRW(c session.Client, config session.Config) (mechanism, error)   { return rw.New(c, config) }

// bubble runs a subtest in virtual time.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// until waits until something is so.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); !condition(); simulate.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// all returns the mechanisms by their names in Redis.
func all() map[string]maker {
	return map[string]maker{"reentrant": newReentrant, "fenced": newFenced, "fair": newFair, "rw": newRW}
}

// network connects one process to Redis. Commands and messages use separate connections, and each can be held up.
type network struct {
	*redis.Client
	messages *redis.Client

	commandsHeld, messagesHeld gate

	mu   sync.Mutex
	stop *stop
}

// stop holds back the reply to one command that the server has run, or the command itself.
type stop struct {
	match   func(args []any) bool
	command bool // it is the command that is held back
	lose    bool // the reply is lost with its connection, at once
	late    bool // the connection ends, and the commands in batch reach the server when they are delivered
	batch   []redis.Cmder
	reached chan struct{} // closed when it is held back
	letGo   func()
	goOn    chan struct{}
}

func newNetwork(t *testing.T, server *simulate.Redis) *network {
	t.Helper()
	n := &network{}
	client := server.Client(t)
	client.AddHook(n)
	n.Client = client
	options := server.Options()
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := server.Dial(ctx, network, addr)
		return messageConn{conn, &n.messagesHeld}, err
	}
	n.messages = redis.NewClient(options)
	t.Cleanup(func() { _ = n.messages.Close() })
	return n
}

// Subscribe implements [session.Client] on a connection apart from the commands.
func (n *network) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	return n.messages.Subscribe(ctx, channels...)
}

type messageConn struct {
	net.Conn
	held *gate
}

// Read returns once messages are no longer held up.
func (c messageConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.held.wait()
	return n, err
}

// DialHook implements [redis.Hook].
func (n *network) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (n *network) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements [redis.Hook]. A session sends all its commands in pipelines.
func (n *network) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		n.commandsHeld.wait()
		if s := n.due(cmds, true); s != nil {
			s.batch = cmds
			close(s.reached)
			if s.late {
				return broken(cmds)
			}
			<-s.goOn
		}
		err := next(ctx, cmds)
		if s := n.due(cmds, false); s != nil {
			close(s.reached)
			if s.lose {
				return broken(cmds)
			}
			<-s.goOn
		}
		return err
	}
}

// broken is what a client makes of a connection that ends.
func broken(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		cmd.SetErr(io.EOF)
	}
	return io.EOF
}

func (n *network) due(cmds []redis.Cmder, command bool) *stop {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.stop
	if s == nil || s.command != command || !slices.ContainsFunc(cmds, func(c redis.Cmder) bool {
		return !redis.HasErrorPrefix(c.Err(), "NOSCRIPT") && s.match(c.Args())
	}) {
		return nil
	}
	n.stop = nil
	return s
}

// stopReply holds back the reply to the next command that matches.
func (n *network) stopReply(t *testing.T, match func(args []any) bool) *stop {
	t.Helper()
	return n.stopAt(t, &stop{match: match})
}

// stopCommand holds back the next command that matches.
func (n *network) stopCommand(t *testing.T, match func(args []any) bool) *stop {
	t.Helper()
	return n.stopAt(t, &stop{match: match, command: true})
}

// loseReply loses the reply to the next command that matches.
func (n *network) loseReply(t *testing.T, match func(args []any) bool) {
	t.Helper()
	n.stopAt(t, &stop{match: match, lose: true})
}

// delayCommand breaks the connection of the next command, which reaches the server only when it is delivered.
func (n *network) delayCommand(t *testing.T) *stop {
	t.Helper()
	return n.stopAt(t, &stop{match: func([]any) bool { return true }, command: true, late: true})
}

// deliver has the server run the commands that were held back.
func (s *stop) deliver(t *testing.T, client *redis.Client) {
	t.Helper()
	for _, cmd := range s.batch {
		if err := client.Do(t.Context(), cmd.Args()...).Err(); err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
}

func (n *network) stopAt(t *testing.T, s *stop) *stop {
	t.Helper()
	s.reached, s.goOn = make(chan struct{}), make(chan struct{})
	s.letGo = sync.OnceFunc(func() { close(s.goOn) })
	t.Cleanup(s.letGo)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stop = s
	return s
}

// scriptArgs returns the number of arguments of a script, without its keys. It tells the scripts of a session apart.
func scriptArgs(args []any) int {
	if keys, ok := args[min(2, len(args)-1)].(int); ok {
		return len(args) - 3 - keys
	}
	return 0
}

// attempt matches the script that acquires, waiterAttempt only where a waiter asks, and the others the scripts that
// release, renew, and remove a queue entry.
func attempt(args []any) bool       { return scriptArgs(args) == 7 }
func waiterAttempt(args []any) bool { return attempt(args) && args[len(args)-4] != "" }
func releasing(args []any) bool     { return scriptArgs(args) == 8 }
func renewal(args []any) bool       { return scriptArgs(args) == 3 }
func leaving(args []any) bool       { return scriptArgs(args) == 2 }

// hold holds up the commands or the messages of a network until letGo or the end of the test.
func hold(t *testing.T, g *gate) (letGo func()) {
	t.Helper()
	shut := make(chan struct{})
	g.shut.Store(&shut)
	letGo = sync.OnceFunc(func() {
		g.shut.Store(nil)
		close(shut)
	})
	t.Cleanup(letGo)
	return letGo
}

// gate is open, or shut until the channel is closed. A goroutine that waits for a channel lets virtual time go on.
type gate struct{ shut atomic.Pointer[chan struct{}] }

func (g *gate) wait() {
	if shut := g.shut.Load(); shut != nil {
		<-*shut
	}
}

// process starts a mechanism on a network of its own.
func process(t *testing.T, server *simulate.Redis, create maker, config session.Config) (mechanism, *network) {
	t.Helper()
	n := newNetwork(t, server)
	m, err := create(n, config)
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return m, n
}

// start is process without its network.
func start(t *testing.T, server *simulate.Redis, create maker, config session.Config) mechanism {
	t.Helper()
	m, _ := process(t, server, create, config)
	return m
}

// startOn starts reentrant on a client of the test's, which it closes.
func startOn(t *testing.T, client redis.UniversalClient, config session.Config) mechanism {
	t.Helper()
	t.Cleanup(func() { _ = client.Close() })
	m, err := newReentrant(client, config)
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// withoutDeadlines returns a client that does not end its commands with their context.
func withoutDeadlines(server *simulate.Redis) *redis.Client {
	options := server.Options()
	options.ContextTimeoutEnabled = false
	return redis.NewClient(options)
}

// acquire fails the test where the acquisition fails.
func acquire(ctx context.Context, t *testing.T, l lock.Locker, opts lock.Options) lock.Lease {
	t.Helper()
	lease, err := l.Acquire(ctx, key, opts)
	fail.NowIf(t, err)
	return lease
}

func release(t *testing.T, lease lock.Lease) {
	t.Helper()
	fail.If(t, lease.Release(t.Context()), "Release")
}

// result receives the result of an acquisition in the background.
func result(t *testing.T, results <-chan locktest.Result) locktest.Result {
	t.Helper()
	select {
	case r := <-results:
		return r
	case <-time.After(time.Minute):
		t.Fatal("the acquisition did not end within a minute")
		return locktest.Result{}
	}
}

// leaseOf receives the lease of an acquisition in the background.
func leaseOf(t *testing.T, results <-chan locktest.Result) lock.Lease {
	t.Helper()
	r := result(t, results)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r.Lease
}

// queued polls until n waiters have an entry in Redis. Nobody may wait in the observer's process.
func queued(t *testing.T, observer lock.Inspector, n int) {
	t.Helper()
	until(t, "all waiters in the queue", func() bool {
		return inspect(t, observer).Waiting == n
	})
}

func inspect(t *testing.T, l lock.Inspector) lock.State {
	t.Helper()
	state, err := l.Inspect(t.Context(), key)
	fail.NowIf(t, err)
	return state
}

// pttl returns how long Redis keeps a lock taken.
func pttl(t *testing.T, server *simulate.Redis, prefix, name string) time.Duration {
	t.Helper()
	left, err := server.Client(t).PTTL(t.Context(), redisio.Key(prefix, name, key, "")).Result()
	fail.NowIf(t, err)
	return left
}

// In a ring, messages are published and received on different nodes: waiters would get none.
func TestRingIsRefused(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1"}})
	defer ring.Close()
	for name, create := range all() {
		fail.Unless(t, fail.Of(create(ring, session.Config{})), lock.ErrInvalid, "%s on a ring", name)
	}
}
