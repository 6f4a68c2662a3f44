package httpserver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// conn is a connection whose writes have a deadline, whose headers have a bounded number of lines, and which reads by a
// [reader].
type conn struct {
	net.Conn
	listener *listener
	client   uint64 // in the listener's bounds

	in         reader
	header     headerLines  // guarded by in.mu
	writeUntil atomic.Int64 // the deadline for writes, in ns of Unix time
}

func newConn(c net.Conn, l *listener, client uint64) *conn {
	return &conn{Conn: c, listener: l, client: client, in: reader{conn: c, clientLeft: func() {}}}
}

type connKey struct{}

// connContext is the ConnContext of a server.
func connContext(ctx context.Context, c net.Conn) context.Context {
	own := c.(*conn) // the listener accepts no other
	ctx, own.in.clientLeft = context.WithCancel(ctx)
	return context.WithValue(ctx, connKey{}, own)
}

// connOf returns the connection of a request's context; nil if another server serves it, as in a test.
func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}

// watch watches the client of a request's context until end is called, see [reader].
func watch(ctx context.Context) (end func()) {
	c := connOf(ctx)
	if c == nil {
		return func() {}
	}
	c.in.watch()
	return c.in.endWatch
}

// WatchClient returns a handler whose requests' contexts end when the client leaves. Others do so only if their handler
// waits for the end of a [Deadline].
func WatchClient(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer watch(r.Context())()
		h.ServeHTTP(w, r)
	})
}

// beginBody is called with a request's handler: its header has ended.
func (c *conn) beginBody(length int64) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.header.beginBody(length)
}

// connState is the ConnState of a server: a connection without a request expects the header of the next one.
func connState(c net.Conn, state http.ConnState) {
	if state == http.StateIdle {
		c.(*conn).beginBody(0)
	}
}

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.readHeader(p)
	if errors.Is(err, errHeaderLines) {
		c.refuseHeader()
	}
	return n, err
}

// readHeader reads without refusing a header.
func (c *conn) readHeader(p []byte) (n int, err error) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	if ended, err := c.in.begin(p); ended {
		return 0, err
	}
	p = c.header.bounded(p)
	if len(c.header.rest) > 0 {
		return c.header.pass(p, c.header.rest)
	}
	read, err := c.in.read(p)
	n, refused := c.header.pass(p, p[:read])
	c.header.rest = bytes.Clone(c.header.rest) // p is net/http's
	return n, cmp.Or(refused, err)
}

// refuseHeader answers a header with too many lines, once.
func (c *conn) refuseHeader() {
	c.in.mu.Lock()
	answered := c.header.refused
	c.header.refused = true
	c.in.mu.Unlock()
	if answered {
		return
	}
	_, _ = io.WriteString(c, tooManyLines) // the client may be gone
	_ = c.CloseWrite()
	_ = c.Conn.SetReadDeadline(time.Now().Add(lingerTimeout))
	_, _ = io.CopyN(io.Discard, c.Conn, maxHeaderBytes)
}

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error { return c.in.want(t) }

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error { return c.in.want(t) }

// SetWriteDeadline implements [net.Conn]. It does nothing: each write sets its own deadline, and net/http, which has no
// WriteTimeout here, would only lift it after each answer.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// Write implements [net.Conn]. The deadline is renewed when less than nearly all of it is left.
func (c *conn) Write(p []byte) (int, error) {
	now := time.Now()
	if !covers(time.Unix(0, c.writeUntil.Load()), now.Add(time.Duration(c.listener.writeLimit.Load())), now) {
		if err := c.limitWrites(now); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

// limitWrites sets the deadline for writes, also for one that is in progress.
func (c *conn) limitWrites(now time.Time) error {
	until := now.Add(time.Duration(c.listener.writeLimit.Load()))
	c.writeUntil.Store(until.UnixNano())
	return c.Conn.SetWriteDeadline(until)
}

// A deadline may end earlier than asked for, by this part of the time that is left and by a second at most. So the
// deadline that a connection has serves the next request too.
const (
	deadlineSlack    = 8
	maxDeadlineSlack = time.Second
)

// covers reports whether a deadline that is set serves for one that is wanted.
func covers(set, wanted, now time.Time) bool {
	if set.IsZero() || wanted.IsZero() {
		return false
	}
	early := wanted.Sub(set)
	return early >= 0 && early <= min(wanted.Sub(now)/deadlineSlack, maxDeadlineSlack)
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.listener.leave(c)
	c.in.clientLeft()
	return c.Conn.Close()
}

// CloseWrite lets net/http half-close a connection, so that the client still reads the answer.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
