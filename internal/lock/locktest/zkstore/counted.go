package zkstore

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"
)

// countingDialer counts the requests that a process sends, without heartbeats and without
// the handshake.
type countingDialer struct {
	mu   sync.Mutex
	sent int
	last time.Time
}

func (c *countingDialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &countingConn{Conn: conn, by: c}, nil
}

// take returns the count and resets it.
func (c *countingDialer) take() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent := c.sent
	c.sent = 0
	return sent
}

// settle waits for requests, and then until there are none for a while.
func (c *countingDialer) settle(t testing.TB) {
	t.Helper()
	const quiet = 150 * time.Millisecond
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if last := c.newest(); !last.IsZero() && time.Since(last) > quiet {
			return
		}
		if time.Now().After(limit) {
			t.Fatal("a waiting process sent nothing for 10 s, or did not stop sending")
		}
	}
}

// settleAll waits until no process has sent a request for a while.
func settleAll(lines []*countingDialer) {
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

// newest returns when the last request was sent.
func (c *countingDialer) newest() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

type countingConn struct {
	net.Conn
	by      *countingDialer
	greeted bool
}

// Write counts frames. A frame begins with its length (4 bytes) and the request number.
func (c *countingConn) Write(p []byte) (int, error) {
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
