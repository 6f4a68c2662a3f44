package httpserver

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Limits on one write to a connection. If a client reads nothing for that long, its connection is closed. net/http's
// WriteTimeout counts from the request, so it would have to be longer than the longest request, and a client that does
// not read would hold its connection for as long.
const (
	writeTimeout = 10 * time.Second
	// lastWriteTimeout applies once a stop has begun.
	lastWriteTimeout = 2 * time.Second
	// refusalTimeout bounds the write of a refusal. The connection's buffer is empty, so the write does not wait.
	refusalTimeout = 10 * time.Millisecond
)

// sendBuffer bounds what the kernel keeps of the answers that a client does not read, in bytes; Linux allows twice as
// much. Left to itself, the kernel keeps up to 4 MB for each connection. On a machine with 24 GB, some 400 clients that
// do not read then take the 1.5 GB from which on the kernel drops segments of other connections, those to Redis among
// them.
const sendBuffer = 64 << 10

// listener keeps the connections within their bounds, sets a deadline for each write on them, see [conn], and bounds
// their buffers.
type listener struct {
	net.Listener
	connections *Limiter // may be nil
	refusal     string
	writeLimit  atomic.Int64 // in ns

	mu   sync.Mutex
	open map[*conn]struct{}
}

func newListener(l net.Listener, cfg Config) *listener {
	own := &listener{Listener: l, connections: cfg.Connections, refusal: cfg.Refusal, open: make(map[*conn]struct{})}
	own.writeLimit.Store(int64(writeTimeout))
	return own
}

// Accept implements [net.Listener]. It answers and closes the connections beyond the bounds itself, without another
// goroutine.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client := clientOfConnection(accepted.RemoteAddr())
		if l.connections.Enter(client) != nil {
			_ = accepted.SetWriteDeadline(time.Now().Add(refusalTimeout))
			_, _ = io.WriteString(accepted, l.refusal) // the client may be gone
			_ = accepted.Close()
			continue
		}
		if tcp, is := accepted.(*net.TCPConn); is {
			_ = tcp.SetWriteBuffer(sendBuffer) // fails for a closed connection, which has no answers
		}
		c := newConn(accepted, l, client)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open[c] = struct{}{}
		return c, nil
	}
}

// leave is called when a connection is closed, maybe more than once.
func (l *listener) leave(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, is := l.open[c]; is {
		delete(l.open, c)
		l.connections.Leave(c.client)
	}
}

// shortenDeadlines applies lastWriteTimeout to every write, including those that are waiting now.
func (l *listener) shortenDeadlines() {
	l.writeLimit.Store(int64(lastWriteTimeout))
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		_ = c.limitWrites(time.Now()) // fails for a closed connection, which has no write
	}
}
