package httpapi

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// tooManyConnections is written to a connection beyond the limit before it is closed.
const tooManyConnections = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n" +
	"Content-Type: application/problem+json\r\nContent-Length: 127\r\n\r\n" +
	`{"type":"urn:seckill:problem:unavailable","title":"Too many connections are open; try again","status":503,"code":"unavailable"}`

// shedWrite bounds that write. The connection's buffer is empty, so the write does not wait.
const shedWrite = 10 * time.Millisecond

// LimitConnections returns a listener that keeps the connections within the limits. Accept answers and
// closes each connection beyond them itself, without another goroutine.
func (a *API) LimitConnections(l net.Listener) net.Listener {
	return &limitedListener{Listener: l, api: a, open: make(map[netip.Addr]int)}
}

type limitedListener struct {
	net.Listener
	api *API

	mu    sync.Mutex
	total int
	open  map[netip.Addr]int // by client
}

// Accept implements [net.Listener].
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client := clientAt(c.RemoteAddr())
		limit := l.enter(client)
		if limit == "" {
			return &countedConn{Conn: c, listener: l, client: client}, nil
		}
		l.api.limits.shed[limit].Inc()
		_ = c.SetWriteDeadline(time.Now().Add(shedWrite))
		_, _ = c.Write([]byte(tooManyConnections)) // the client may be gone
		_ = c.Close()
	}
}

// enter counts a connection, or returns the name of the limit that it exceeds.
func (l *limitedListener) enter(client netip.Addr) (limit string) {
	limits := l.api.cfg.Limits
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case limits.Connections > 0 && l.total >= limits.Connections:
		return limitConnections
	case limits.ConnectionsPerAddress > 0 && !client.IsLoopback() && l.open[client] >= limits.ConnectionsPerAddress:
		return limitAddressConn
	}
	l.total++
	l.open[client]++
	return ""
}

func (l *limitedListener) leave(client netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if l.open[client]--; l.open[client] == 0 {
		delete(l.open, client)
	}
}

func clientAt(addr net.Addr) netip.Addr {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return clientOf(tcp.AddrPort().Addr())
	}
	return netip.Addr{}
}

// countedConn is a connection that is counted until it is closed.
type countedConn struct {
	net.Conn
	listener *limitedListener
	client   netip.Addr
	once     sync.Once
}

// Close implements [net.Conn].
func (c *countedConn) Close() error {
	c.once.Do(func() { c.listener.leave(c.client) })
	return c.Conn.Close()
}

// CloseWrite lets net/http half-close a connection, so that the client still reads the answer.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// SetWriteBuffer implements [kernelBuffered].
func (c *countedConn) SetWriteBuffer(bytes int) error {
	if buffered, is := c.Conn.(kernelBuffered); is {
		return buffered.SetWriteBuffer(bytes)
	}
	return nil
}
