package main

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// counter counts the commands that clients send, whatever library they use, by reading what is written to their
// connections. Commands of transactions and pub/sub count as any other, a script counts as one.
type counter struct {
	commands atomic.Int64
}

// dial connects as go-redis and rueidis do by default, and counts.
func (c *counter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &countedConn{Conn: conn, counter: c}, nil
}

// countedConn is a connection with a parser on its sending side.
type countedConn struct {
	net.Conn
	counter *counter

	mu     sync.Mutex
	parser respParser
}

// Write passes p on and counts the commands that end in it.
func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counter.commands.Add(int64(c.parser.feed(p[:n])))
	return n, err
}

// respParser finds the ends of commands in a stream. A command is a RESP array of bulk strings,
// "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", and may be split anywhere between two writes.
type respParser struct {
	args int  // of the command that are still to come
	skip int  // bytes of the argument that are still to come, with its line end
	kind byte // of the line that is being read, '*' or '$'; 0 at its beginning
	size int  // the number on that line, so far
}

// feed returns how many commands end in p.
func (r *respParser) feed(p []byte) (commands int) {
	for i := 0; i < len(p); {
		if r.skip > 0 {
			n := min(r.skip, len(p)-i)
			r.skip -= n
			i += n
			if r.skip == 0 {
				if r.args--; r.args == 0 {
					commands++
				}
			}
			continue
		}
		switch b := p[i]; {
		case r.kind == 0:
			r.kind, r.size = b, 0
		case b >= '0' && b <= '9':
			r.size = r.size*10 + int(b-'0')
		case b == '\n' && r.kind == '*':
			r.kind, r.args = 0, r.size
		case b == '\n':
			r.kind, r.skip = 0, r.size+len("\r\n")
		}
		i++
	}
	return commands
}
