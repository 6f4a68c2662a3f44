package zkstore

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
)

// countingDialer counts the requests that a process sends until it is granted the lock, without heartbeats and without
// the handshake.
type countingDialer struct {
	mu   sync.Mutex
	sent int
	over bool // it was granted the lock

	pending int32 // the newest request
	watch   bool  // it sets a watch
	watches bool  // and was answered; the watch has not fired
}

func (c *countingDialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &countingConn{Conn: conn, by: c}, nil
}

func (c *countingDialer) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = 0
}

func (c *countingDialer) granted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

func (c *countingDialer) requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent
}

// waits reports whether the process waits for the server: it has set a watch, which has not fired.
func (c *countingDialer) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watches
}

// countingConn reads the frames of ZooKeeper's protocol that pass through it. A frame begins with its length (4 bytes).
type countingConn struct {
	net.Conn
	by      *countingDialer
	greeted bool
	in      []byte // the beginning of a frame, the rest of which has not been read yet
	welcome bool   // the server's answer to the greeting has been read
}

// Write counts frames: the length, the request's number, the operation. Numbers below 0 are those of heartbeats and
// of the watches that a new connection sets again. getData says in its last byte whether it sets a watch.
func (c *countingConn) Write(p []byte) (int, error) {
	const getData = 4
	if c.greeted && len(p) >= 12 {
		if xid := frameInt(p[4:]); xid >= 0 {
			c.by.requested(xid, frameInt(p[8:]) == getData && p[len(p)-1] == 1)
		}
	}
	c.greeted = true
	return c.Conn.Write(p)
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in = append(c.in, p[:n]...)
	for len(c.in) >= 8 && len(c.in) >= 4+int(frameInt(c.in)) {
		if c.welcome {
			c.by.answered(frameInt(c.in[4:]))
		}
		c.welcome = true
		c.in = c.in[4+int(frameInt(c.in)):]
	}
	return n, err
}

func frameInt(p []byte) int32 { return int32(binary.BigEndian.Uint32(p)) }

func (c *countingDialer) requested(xid int32, watch bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.sent++
	}
	c.pending, c.watch, c.watches = xid, watch, false
}

func (c *countingDialer) answered(xid int32) {
	const event = -1 // of a watch
	c.mu.Lock()
	defer c.mu.Unlock()
	switch xid {
	case c.pending:
		c.watches = c.watch
	case event:
		c.watches = false
	}
}
