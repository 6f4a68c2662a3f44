package embedded

import (
	"context"
	"net"
	"sync"

	"github.com/alicebob/miniredis/v2"
)

// Redis is a Redis server inside the process. It does not listen on any socket: another process that could
// connect to it could read and forge orders, and a malformed command ends the process.
type Redis struct {
	mini *miniredis.Miniredis

	mu     sync.Mutex
	closed bool
}

func newRedis() (*Redis, error) {
	mini := miniredis.NewMiniRedis()
	mini.ClockTTL(true)       // otherwise keys expire only when a test advances the time
	first, err := mini.Dial() // starts the server without a listener
	if err != nil {
		return nil, err
	}
	return &Redis{mini: mini}, first.Close()
}

// Dial connects to the server. It is for the Dialer of a client's options.
func (e *Redis) Dial(context.Context, string, string) (net.Conn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, net.ErrClosed
	}
	client, server := net.Pipe()
	e.mini.Server().ServeConn(newBufferedConn(server))
	return client, nil
}

func (e *Redis) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.mini.Close()
}

// bufferedConn is the server's end of a pipe. Its writes do not wait until the client reads. A pipe has no
// buffer, and a client writes a whole pipeline before it reads the first reply: without a buffer both ends
// would wait for each other.
type bufferedConn struct {
	net.Conn
	mu     sync.Mutex
	more   *sync.Cond // signalled when there is data to send or the connection was closed
	buffer []byte
	closed bool
}

var _ net.Conn = (*bufferedConn)(nil)

func newBufferedConn(c net.Conn) *bufferedConn {
	b := &bufferedConn{Conn: c}
	b.more = sync.NewCond(&b.mu)
	go b.send()
	return b
}

// Write implements [net.Conn].
func (c *bufferedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	c.buffer = append(c.buffer, p...)
	c.more.Signal()
	return len(p), nil
}

// send sends the buffered data until either side closes the connection.
func (c *bufferedConn) send() {
	for {
		c.mu.Lock()
		for len(c.buffer) == 0 && !c.closed {
			c.more.Wait()
		}
		next, closed := c.buffer, c.closed
		c.buffer = nil
		c.mu.Unlock()
		if closed {
			return
		}
		if _, err := c.Conn.Write(next); err != nil {
			_ = c.Close()
		}
	}
}

// Close implements [net.Conn].
func (c *bufferedConn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.more.Signal()
	c.mu.Unlock()
	return c.Conn.Close()
}
