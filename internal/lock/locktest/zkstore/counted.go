package zkstore

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"
)

// counted is a process's connection that counts the requests sent on it, without
// heartbeats and without the handshake.
type counted struct {
	mu   sync.Mutex
	sent int
	last time.Time
}

func (c *counted) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &countedConn{Conn: conn, by: c}, nil
}

// take returns the count and starts anew.
func (c *counted) take() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent := c.sent
	c.sent = 0
	return sent
}

// settle waits until there were requests, and then none for a while.
func (c *counted) settle(t testing.TB) {
	t.Helper()
	const quiet = 150 * time.Millisecond
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if last := c.newest(); !last.IsZero() && time.Since(last) > quiet {
			return
		}
		if time.Now().After(limit) {
			t.Fatal("a process that waits said nothing for 10 s, or too much")
		}
	}
}

// settleAll waits until nobody has made a request for a while.
func settleAll(lines []*counted) {
	const quiet = 500 * time.Millisecond
	last := time.Now()
	for time.Since(last) < quiet {
		time.Sleep(time.Millisecond)
		for _, line := range lines {
			if at := line.newest(); at.After(last) {
				last = at
			}
		}
	}
}

// newest is when the last request was made.
func (c *counted) newest() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

type countedConn struct {
	net.Conn
	by      *counted
	greeted bool
}

// Write counts frames: a length, 4 bytes, and the number of the request.
func (c *countedConn) Write(p []byte) (int, error) {
	const ping = -2
	if c.greeted && len(p) >= 8 && int32(binary.BigEndian.Uint32(p[4:8])) != ping {
		c.by.mu.Lock()
		c.by.sent++
		c.by.last = time.Now()
		c.by.mu.Unlock()
	}
	c.greeted = true
	return c.Conn.Write(p)
}
