package locktest

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// Network carries the connections of one process and fails on demand. The server
// keeps working: only this process cannot reach it.
type Network struct {
	mu       sync.Mutex
	conns    map[*faultyConn]struct{}
	cut      bool
	frozen   chan struct{} // not nil while frozen; closed by Unfreeze
	sent     int
	received int
	before   func(n int)
	loss     *loss
	notice   func(what string)
}

// Loss is how a reply gets lost after the server has carried out the request.
type Loss int

const (
	// Reset closes the connection instead of delivering the reply. A client that
	// repeats failed commands repeats this one.
	Reset Loss = iota
	// Silence keeps the connection open, but nothing arrives on it any more.
	Silence
	// Deliver delivers the reply: only the callback of LoseReply runs.
	Deliver
)

// loss is a planned loss.
type loss struct {
	how    Loss
	after  int // how many sends from now
	notice func()
}

// errCut is the error of a process on a network that was cut.
var errCut = errors.New("locktest: the network is cut")

// NewNetwork returns a network without faults.
func NewNetwork() *Network { return &Network{conns: make(map[*faultyConn]struct{})} }

// Dial connects through the network. Its signature is that of net.Dialer.DialContext.
func (nw *Network) Dial(ctx context.Context, transport, addr string) (net.Conn, error) {
	refused := &net.OpError{Op: "dial", Net: transport, Err: errCut}
	if nw.isCut() {
		return nil, refused
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, transport, addr)
	if err != nil {
		return nil, err
	}
	faulty := &faultyConn{Conn: conn, network: nw}
	nw.mu.Lock()
	defer nw.mu.Unlock()
	if nw.cut { // meanwhile
		_ = conn.Close()
		return nil, refused
	}
	nw.conns[faulty] = struct{}{}
	return faulty, nil
}

// Notice has f called with each fault, as it begins and ends.
func (nw *Network) Notice(f func(what string)) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.notice = f
}

// note calls the function of Notice. The mutex is held.
func (nw *Network) note(what string) {
	if nw.notice != nil {
		nw.notice(what)
	}
}

func (nw *Network) isCut() bool {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	return nw.cut
}

// Cut closes every connection and refuses new ones.
func (nw *Network) Cut() {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.cut = true
	nw.note("cannot reach the server")
	for c := range nw.conns {
		_ = c.Conn.Close()
	}
}

// Restore lets the process dial again.
func (nw *Network) Restore() {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.cut = false
	nw.note("reaches the server again")
}

// Freeze stops the process at its next send, as SIGSTOP would, until Unfreeze.
func (nw *Network) Freeze() {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.frozen = make(chan struct{})
}

// Idle reports whether everything that was sent has been answered.
func (nw *Network) Idle() bool {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	return nw.received >= nw.sent
}

// Unfreeze undoes Freeze.
func (nw *Network) Unfreeze() {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	close(nw.frozen)
	nw.frozen = nil
}

// Sent counts the sends since the last Observe.
func (nw *Network) Sent() int {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	return nw.sent
}

// Received counts the arrivals since the last Observe.
func (nw *Network) Received() int {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	return nw.received
}

// Observe resets both counters. From then on it calls before, if that is not nil,
// ahead of every send with the number of the send, from 1.
func (nw *Network) Observe(before func(n int)) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.sent, nw.received, nw.before = 0, 0, before
}

// LoseReply loses the reply to the nth send from now, counted from 1. When the reply
// arrives, and so the server has carried out the request, notice is called if it is
// not nil.
func (nw *Network) LoseReply(n int, how Loss, notice func()) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.loss = &loss{how: how, after: n, notice: notice}
}

// send is called ahead of every write. It returns the loss that is planned for the
// reply to this write, or nil.
func (nw *Network) send() *loss {
	n, before, due := nw.admit()
	if before != nil {
		before(n)
	}
	return due
}

// admit waits while the network is frozen and then counts a send.
func (nw *Network) admit() (n int, before func(int), due *loss) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	for nw.frozen != nil {
		frozen := nw.frozen
		nw.mu.Unlock()
		<-frozen
		nw.mu.Lock()
	}
	nw.sent++
	if nw.loss != nil {
		if nw.loss.after--; nw.loss.after == 0 {
			due, nw.loss = nw.loss, nil
			if due.how != Deliver {
				nw.note("sends a request whose reply will be lost")
			}
		}
	}
	return nw.sent, nw.before, due
}

func (nw *Network) receive() {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.received++
}

func (nw *Network) drop(c *faultyConn) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	delete(nw.conns, c)
}

// faultyConn is one connection of a [Network].
type faultyConn struct {
	net.Conn
	network *Network

	mu   sync.Mutex
	loss *loss
}

// Write sends p. Clients send one command, or one batch of commands, at a time.
func (c *faultyConn) Write(p []byte) (int, error) {
	if due := c.network.send(); due != nil {
		c.mu.Lock()
		c.loss = due
		c.mu.Unlock()
	}
	return c.Conn.Write(p)
}

// Read receives a reply and delivers it or loses it.
func (c *faultyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		return n, err
	}
	c.mu.Lock()
	due := c.loss
	c.loss = nil
	c.mu.Unlock()
	c.network.receive()
	if due == nil {
		return n, nil
	}
	if due.notice != nil {
		due.notice()
	}
	switch due.how {
	case Reset:
		_ = c.Conn.Close()
		return 0, io.EOF
	case Silence:
		for err == nil {
			_, err = c.Conn.Read(p) // until the client's deadline, or its Close
		}
		return 0, err
	}
	return n, nil
}

// Close closes the connection.
func (c *faultyConn) Close() error {
	c.network.drop(c)
	return c.Conn.Close()
}
