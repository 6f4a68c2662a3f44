package httpapi

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Limits on one write to a connection. If a client reads nothing for that long, its connection is closed.
// net/http's WriteTimeout counts from the request, so it would have to be longer than the longest request,
// and a client that does not read would hold its connection for as long.
const (
	writeTimeout = 10 * time.Second
	// lastWriteTimeout applies once a stop has begun.
	lastWriteTimeout = 2 * time.Second
)

// listener sets a deadline for each write on the connections that it accepts.
type listener struct {
	net.Listener
	limit atomic.Int64 // of a write, in ns

	mu   sync.Mutex
	open map[*conn]struct{}
}

func newListener(l net.Listener) *listener {
	b := &listener{Listener: l, open: make(map[*conn]struct{})}
	b.limit.Store(int64(writeTimeout))
	return b
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: accepted, listener: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[c] = struct{}{}
	return c, nil
}

// shortenDeadlines applies lastWriteTimeout to every write, including those that are waiting now.
func (l *listener) shortenDeadlines() {
	l.limit.Store(int64(lastWriteTimeout))
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		_ = c.setDeadline() // fails for a closed connection, which has no write
	}
}

// conn is a connection whose writes have a deadline.
type conn struct {
	net.Conn
	listener *listener
}

func (c *conn) setDeadline() error {
	return c.SetWriteDeadline(time.Now().Add(time.Duration(c.listener.limit.Load())))
}

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (int, error) {
	if err := c.setDeadline(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.open, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite lets net/http half-close a connection, so that the client still reads the answer.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
