package embedded

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Redis is a Redis server inside the process. It does not listen on any socket: another process that could connect to
// it could read and forge orders, and a malformed command ends the process.
type Redis struct {
	mini *miniredis.Miniredis

	mu    sync.Mutex
	conns map[net.Conn]struct{} // the server's ends
	down  bool

	watch func(data []byte) // nil: nobody watches

	hook     atomic.Pointer[server.Hook]
	replicas atomic.Int64
	closing  chan struct{}
}

// NewRedis starts a server. Close it.
func NewRedis() (*Redis, error) {
	mini := miniredis.NewMiniRedis()
	mini.ClockTTL(true)       // otherwise keys expire only when a test advances the time
	first, err := mini.Dial() // starts the server without a listener
	if err != nil {
		return nil, err
	}
	r := &Redis{mini: mini, conns: make(map[net.Conn]struct{}), closing: make(chan struct{})}
	return r, errors.Join(r.complete(), first.Close())
}

// Dial connects to the server. It is for the Dialer of a client's options.
func (r *Redis) Dial(_ context.Context, network, _ string) (net.Conn, error) {
	client, server := Pipe()
	if err := r.Serve(server); err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	return client, nil
}

// Serve serves the connection whose server's end is end. While the server is stopped it returns [net.ErrClosed].
func (r *Redis) Serve(end net.Conn) error {
	conn := &serverConn{Conn: end, closed: r.forget, watch: r.watch}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return net.ErrClosed
	}
	r.conns[conn] = struct{}{}
	r.mini.Server().ServeConn(conn)
	return nil
}

// Stop closes all connections and accepts no new ones. The data stays.
func (r *Redis) Stop() {
	r.mu.Lock()
	r.down = true
	var conns []net.Conn
	for conn := range r.conns {
		conns = append(conns, conn)
	}
	r.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// Start undoes Stop.
func (r *Redis) Start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = false
}

// Close stops the server for ever.
func (r *Redis) Close() {
	r.Stop()
	close(r.closing)
	r.mini.Close()
}

// Watch has watch called with what a client has sent, before the server sees it. It may wait, which delays that client.
// Call Watch before the first client connects.
func (r *Redis) Watch(watch func(data []byte)) { r.watch = watch }

// Mini is the server itself, to look into it and to change what it does.
func (r *Redis) Mini() *miniredis.Miniredis { return r.mini }

func (r *Redis) forget(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, conn)
}

// serverConn is the server's end of a connection.
type serverConn struct {
	net.Conn
	closed func(net.Conn)
	watch  func([]byte)
}

// Read implements [net.Conn].
func (c *serverConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.watch != nil {
		c.watch(p[:n])
	}
	return n, err
}

// Close implements [net.Conn].
func (c *serverConn) Close() error {
	c.closed(c)
	return c.Conn.Close()
}
