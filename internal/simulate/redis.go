package simulate

import (
	"context"
	"net"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// TB is what this package needs of a test.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Redis is a Redis server in this process. It listens on no port.
type Redis struct {
	mini *miniredis.Miniredis

	mu    sync.Mutex
	conns map[net.Conn]struct{} // the servers' ends
	down  bool
}

// NewRedis starts a server that stops when t ends. In a bubble, call it from inside.
func NewRedis(t TB) *Redis {
	t.Helper()
	r := &Redis{mini: miniredis.NewMiniRedis(), conns: make(map[net.Conn]struct{})}
	r.mini.ClockTTL(true)       // otherwise keys expire only when a test says so
	first, err := r.mini.Dial() // starts the server without a listener
	if err == nil {
		err = first.Close()
	}
	if err != nil {
		t.Fatalf("simulate: start a Redis in this process: %v", err)
	}
	t.Cleanup(r.mini.Close)
	return r
}

// Dial connects to the server. It is for the Dialer of a client's options.
func (r *Redis) Dial(_ context.Context, network, _ string) (net.Conn, error) {
	client, end := pipe()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return nil, &net.OpError{Op: "dial", Net: network, Err: net.ErrClosed}
	}
	r.conns[end] = struct{}{}
	r.mini.Server().ServeConn(end)
	return client, nil
}

// Options returns options for a client that works in a bubble: it asks no resolver, starts nothing in the background, and
// repeats no command.
func (r *Redis) Options() *redis.Options {
	return &redis.Options{
		Addr: "127.0.0.1:1", Dialer: r.Dial, DialerRetries: 1, MaxRetries: -1, ContextTimeoutEnabled: true, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Client returns a client with [Redis.Options] that is closed when t ends.
func (r *Redis) Client(t TB) *redis.Client {
	t.Helper()
	client := redis.NewClient(r.Options())
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Stop closes all connections and accepts no new ones. The data stays.
func (r *Redis) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = true
	for end := range r.conns {
		_ = end.Close()
	}
	clear(r.conns)
}

// Start undoes Stop.
func (r *Redis) Start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = false
}

// RestartEmpty stops the server and starts it without its data and scripts, as a server without persistence that died.
func (r *Redis) RestartEmpty() {
	r.Stop()
	r.mini.FlushAll()
	r.Start()
}

// Refuse has refuse called ahead of every command, also of those that a script calls. What it returns, if it is not
// empty, is the error with which the server answers in place of carrying the command out. nil ends it. refuse runs while
// the server is locked: it must not wait.
func (r *Redis) Refuse(refuse func(command string, args ...string) string) {
	if refuse == nil {
		r.mini.Server().SetPreHook(nil)
		return
	}
	r.mini.Server().SetPreHook(func(peer *server.Peer, command string, args ...string) bool {
		message := refuse(command, args...)
		if message != "" {
			peer.WriteError(message)
		}
		return message != ""
	})
}
