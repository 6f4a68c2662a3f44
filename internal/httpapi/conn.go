package httpapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A deadline may end earlier than asked for, by this part of the time that is left and by a second at most. So
// the deadline that a connection has serves the next request too.
const (
	deadlineSlack    = 8
	maxDeadlineSlack = time.Second
)

// conn is a connection whose writes have a deadline, and which spares net/http what it does for each request and
// a rush does not need. [ADR 15] has the measurements.
//
//   - While a handler runs, net/http reads one byte in the background, to learn whether the client has left. The
//     read finds nothing, waits in the poller and is interrupted at the end of the request. Here it returns at
//     once with nothing. Only when somebody waits for the end of the request's context does the connection read
//     that byte itself, see [conn.watch].
//   - net/http sets the deadline for reads six times for each request. Here it is set when a read begins that
//     needs another one, or while a read is under way.
//   - The deadline of a write is renewed when less than nearly all of it is left.
//
// [ADR 15]: ../../docs/adr/0015-no-background-read.md
type conn struct {
	net.Conn
	listener *listener
	// clientLeft ends the contexts of the connection's requests. It is nil where the server has no
	// [noticeable].
	clientLeft context.CancelFunc

	writeUntil atomic.Int64 // the deadline for writes, in ns of Unix time

	mu      sync.Mutex
	wanted  time.Time // net/http's deadline for reads
	set     time.Time // the connection's
	reading bool      // a read is under way: a deadline is set at once
	closed  bool

	watched bool // somebody wants to know when the client leaves
	// declined: net/http's background read was asked for and returned with nothing.
	declined bool
	watcher  chan struct{} // closed when the connection's own background read ends; nil without one
	stopping bool          // that read was interrupted
	early    []byte        // what it has read: the beginning of the next request
	byteBuf  [1]byte

	header headerLines
}

func newConn(c net.Conn, l *listener) *conn { return &conn{Conn: c, listener: l} }

type connKey struct{}

// noticeable is the ConnContext of a server whose connections are watched.
func noticeable(ctx context.Context, c net.Conn) context.Context {
	own, is := c.(*conn)
	if !is {
		return ctx // net/http notices by itself
	}
	ctx, own.clientLeft = context.WithCancel(ctx)
	return context.WithValue(ctx, connKey{}, own)
}

// watch makes sure that the context of a request ends when its client leaves, from now until the function that it
// returns is called. That must be before the handler returns.
func watch(ctx context.Context) (end func()) {
	c, is := ctx.Value(connKey{}).(*conn)
	if !is {
		return func() {}
	}
	c.watch()
	return c.endWatch
}

// noticeLeaving watches the client of every request.
func noticeLeaving(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer watch(r.Context())()
		h.ServeHTTP(w, r)
	})
}

func (c *conn) watch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched = true
	if !c.declined || c.closed || c.watcher != nil || len(c.early) > 0 {
		return // net/http has not asked yet, or there is no need to
	}
	c.watcher = make(chan struct{})
	c.reading, c.set = true, time.Time{}
	_ = c.Conn.SetReadDeadline(time.Time{}) // fails for a closed connection, whose read fails as well
	go c.awaitLeaving(c.watcher)
}

// awaitLeaving is the connection's own background read.
func (c *conn) awaitLeaving(ended chan struct{}) {
	n, err := c.Conn.Read(c.byteBuf[:])
	c.mu.Lock()
	c.early = c.byteBuf[:n]
	left := n == 0 && err != nil && !c.stopping
	c.reading, c.stopping, c.watcher = false, false, nil
	c.mu.Unlock()
	close(ended)
	if left {
		c.clientLeft()
	}
}

func (c *conn) endWatch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched = false
	c.stopWatcher()
}

// stopWatcher ends the connection's own background read. The lock is held, but not meanwhile.
func (c *conn) stopWatcher() {
	for c.watcher != nil {
		ended := c.watcher
		c.stopping, c.set = true, aLongTimeAgo
		_ = c.Conn.SetReadDeadline(aLongTimeAgo) // fails for a closed connection, whose read ends by itself
		c.mu.Unlock()
		<-ended
		c.mu.Lock()
	}
}

// aLongTimeAgo is a deadline that has passed.
var aLongTimeAgo = time.Unix(1, 0)

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.readCounted(p)
	if errors.Is(err, errHeaderLines) {
		c.refuseHeader()
	}
	return n, err
}

// readCounted reads without refusing a header.
func (c *conn) readCounted(p []byte) (int, error) {
	p, n, err, done := c.readWithout(p)
	if done {
		return n, err
	}
	n, err = c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = false
	passed, refused := c.header.read(p[:n])
	if refused != nil {
		err = refused
	}
	return passed, err
}

// readWithout reads without the connection where that is possible, and otherwise prepares the connection for a read
// into a part of p.
func (c *conn) readWithout(p []byte) (part []byte, n int, err error, done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// net/http lifts the deadline for a background read, and without one reads nothing else a byte at a time.
	background := len(p) == 1 && c.wanted.IsZero()
	c.declined = background && !c.watched
	switch {
	case len(p) == 1 && !background && !c.wanted.After(time.Now()):
		// A background read that was interrupted before it began.
		return nil, 0, os.ErrDeadlineExceeded, true
	case c.declined:
		return nil, 0, nil, true
	}
	c.stopWatcher()
	p = c.header.bounded(p)
	if len(c.header.rest) > 0 {
		n, err = c.header.readRest(p)
		return nil, n, err, true
	}
	if len(c.early) > 0 {
		n = copy(p, c.early)
		c.early = c.early[n:]
		n, err = c.header.count(p[:n])
		return nil, n, err, true
	}
	err = c.beginRead()
	return p, 0, err, err != nil
}

// beginRead prepares the connection for a read. The lock is held.
func (c *conn) beginRead() error {
	c.reading = true
	if c.set.Equal(c.wanted) || covers(c.set, c.wanted, time.Now()) {
		return nil
	}
	return c.setRead()
}

// covers reports whether a deadline that is set serves for one that is wanted.
func covers(set, wanted, now time.Time) bool {
	if set.IsZero() || wanted.IsZero() {
		return false
	}
	early := wanted.Sub(set)
	return early >= 0 && early <= min(wanted.Sub(now)/deadlineSlack, maxDeadlineSlack)
}

// setRead sets the deadline for reads. The lock is held.
func (c *conn) setRead() error {
	c.set = c.wanted
	return c.Conn.SetReadDeadline(c.wanted)
}

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = t
	if c.reading && !c.stopping && !t.Equal(c.set) {
		return c.setRead()
	}
	return nil
}

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline implements [net.Conn]. It does nothing: each write sets its own deadline, and net/http, which
// has no WriteTimeout here, would only lift it after each answer.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (int, error) {
	now := time.Now()
	if !covers(time.Unix(0, c.writeUntil.Load()), now.Add(time.Duration(c.listener.limit.Load())), now) {
		if err := c.limitWrites(now); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

// limitWrites sets the deadline for writes, also for one that is under way.
func (c *conn) limitWrites(now time.Time) error {
	until := now.Add(time.Duration(c.listener.limit.Load()))
	c.writeUntil.Store(until.UnixNano())
	return c.Conn.SetWriteDeadline(until)
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.open, c)
	c.listener.mu.Unlock()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	if c.clientLeft != nil {
		c.clientLeft()
	}
	return c.Conn.Close()
}

// CloseWrite lets net/http half-close a connection, so that the client still reads the answer.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
