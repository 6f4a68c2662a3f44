package session_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/fair"
	"seckill/internal/lock/redis/fenced"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/lock/redis/rw"
	"seckill/internal/lock/redis/session"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const key = "seat"

// slack is what the clocks of Redis and of this process may differ by when the same
// lease is read from both.
const slack = 100 * time.Millisecond

// mechanism is what every session is to the outside.
type mechanism interface {
	lock.Locker
	lock.Inspector
	lock.Breaker
	Close() error
}

// maker makes a mechanism as one process has it.
type maker func(session.Client, session.Config) (mechanism, error)

func newReentrant(c session.Client, config session.Config) (mechanism, error) {
	return reentrant.New(c, config)
}
func newFenced(c session.Client, config session.Config) (mechanism, error) {
	return fenced.New(c, config)
}
func newFair(c session.Client, config session.Config) (mechanism, error) { return fair.New(c, config) }
func newRW(c session.Client, config session.Config) (mechanism, error)   { return rw.New(c, config) }

// all are the mechanisms by their names in Redis.
func all() map[string]maker {
	return map[string]maker{"reentrant": newReentrant, "fenced": newFenced, "fair": newFair, "rw": newRW}
}

// network is what lies between one process and Redis. Commands and messages have
// connections of their own, and each can be held up by itself.
type network struct {
	*redis.Client
	messages *redis.Client

	commandsHeld, messagesHeld sync.RWMutex

	mu   sync.Mutex
	stop *stop
}

// stop holds back the reply to one command that the server has carried out.
type stop struct {
	match   func(args []any) bool
	reached chan struct{} // closed when there is a reply to hold back
	letGo   func()
	goOn    chan struct{}
}

func newNetwork(t *testing.T, server *testkit.RedisServer) *network {
	t.Helper()
	n := &network{}
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	client.AddHook(n)
	n.Client = client
	n.messages = redis.NewClient(&redis.Options{Addr: server.Addr(), Dialer: n.dialMessages})
	t.Cleanup(func() { _, _ = client.Close(), n.messages.Close() })
	return n
}

// Subscribe implements [session.Client] on connections apart from the commands'.
func (n *network) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	return n.messages.Subscribe(ctx, channels...)
}

func (n *network) dialMessages(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return messageConn{conn, &n.messagesHeld}, err
}

type messageConn struct {
	net.Conn
	held *sync.RWMutex
}

// Read delivers what was read once nothing is held up.
func (c messageConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.held.RLock()
	defer c.held.RUnlock()
	return n, err
}

// DialHook implements [redis.Hook].
func (n *network) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (n *network) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements [redis.Hook]: it is how a session's commands go out.
func (n *network) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		n.commandsHeld.RLock()
		n.commandsHeld.RUnlock() //nolint:staticcheck // the lock is a gate to go through
		err := next(ctx, cmds)
		if s := n.due(cmds); s != nil {
			close(s.reached)
			<-s.goOn
		}
		return err
	}
}

func (n *network) due(cmds []redis.Cmder) *stop {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.stop
	if s == nil || !slices.ContainsFunc(cmds, func(c redis.Cmder) bool {
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
	s := &stop{match: match, reached: make(chan struct{}), goOn: make(chan struct{})}
	s.letGo = sync.OnceFunc(func() { close(s.goOn) })
	t.Cleanup(s.letGo)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stop = s
	return s
}

// scriptArgs is how many arguments, after its keys, a script was called with. It
// tells the scripts of a session apart.
func scriptArgs(args []any) int {
	if keys, ok := args[min(2, len(args)-1)].(int); ok {
		return len(args) - 3 - keys
	}
	return 0
}

// attempt matches the script that acquires; renewal the one that renews.
func attempt(args []any) bool { return scriptArgs(args) == 7 }
func renewal(args []any) bool { return scriptArgs(args) == 3 }

// hold holds up what goes through a gate of a network, until letGo or the test's end.
func hold(t *testing.T, gate *sync.RWMutex) (letGo func()) {
	t.Helper()
	gate.Lock()
	letGo = sync.OnceFunc(gate.Unlock)
	t.Cleanup(letGo)
	return letGo
}

// process starts a mechanism on a network of its own.
func process(t *testing.T, server *testkit.RedisServer, create maker, config session.Config) (mechanism, *network) {
	t.Helper()
	n := newNetwork(t, server)
	m, err := create(n, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m, n
}

// start is process where the network does not matter.
func start(t *testing.T, server *testkit.RedisServer, create maker, config session.Config) mechanism {
	t.Helper()
	m, _ := process(t, server, create, config)
	return m
}

// acquire fails the test where the lock cannot be had.
func acquire(ctx context.Context, t *testing.T, l lock.Locker, opts lock.Options) lock.Lease {
	t.Helper()
	lease, err := l.Acquire(ctx, key, opts)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func release(t *testing.T, lease lock.Lease) {
	t.Helper()
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
}

// result receives what an acquisition in the background came to.
func result(t *testing.T, results <-chan lock.Result) lock.Result {
	t.Helper()
	select {
	case r := <-results:
		return r
	case <-time.After(10 * time.Second):
		t.Fatal("10 s passed without an end of the acquisition")
		return lock.Result{}
	}
}

// leaseOf receives a lease that was waited for in the background.
func leaseOf(t *testing.T, results <-chan lock.Result) lock.Lease {
	t.Helper()
	r := result(t, results)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r.Lease
}

// until polls a condition that something else is about to make true.
func until(t *testing.T, what string, within time.Duration, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%v passed without %s", within, what)
		}
	}
}

// queued polls until n have a place in Redis, as seen by a process in which nobody waits.
func queued(t *testing.T, observer lock.Inspector, n int) {
	t.Helper()
	until(t, "everybody in the queue", 10*time.Second, func() bool {
		return inspect(t, observer).Waiting == n
	})
}

func inspect(t *testing.T, l lock.Inspector) lock.State {
	t.Helper()
	state, err := l.Inspect(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// pttl is how long Redis itself keeps a lock taken.
func pttl(t *testing.T, server *testkit.RedisServer, prefix, name string) time.Duration {
	t.Helper()
	left, err := server.Client(t).PTTL(t.Context(), redisio.Key(prefix, name, key, "")).Result()
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// A ring has no node where all channels of a lock meet: who waits would hear nothing.
func TestRingIsRefused(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1"}})
	defer ring.Close()
	for name, create := range all() {
		if _, err := create(ring, session.Config{}); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("%s on a ring = %v, want ErrInvalid", name, err)
		}
	}
}
