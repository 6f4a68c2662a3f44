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

// sendBuffer bounds what the kernel keeps of the answers that a client does not read, in bytes; Linux allows twice as
// much. Left to itself, the kernel keeps up to 4 MB for each connection. On a machine with 24 GB, some 400 clients that do
// not read then take the 1.5 GB from which on the kernel drops segments of other connections, those to Redis among them.
const sendBuffer = 64 << 10

// listener sets a deadline for each write on the connections that it accepts, see [conn], and bounds their buffers.
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

// kernelBuffered is a connection with a buffer in the kernel, as [net.TCPConn] is.
type kernelBuffered interface {
	SetWriteBuffer(bytes int) error
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if buffered, is := accepted.(kernelBuffered); is {
		_ = buffered.SetWriteBuffer(sendBuffer) // fails for a closed connection, which has no answers
	}
	c := newConn(accepted, l)
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
		_ = c.limitWrites(time.Now()) // fails for a closed connection, which has no write
	}
}
