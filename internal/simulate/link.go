package simulate

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// DialFunc opens a connection, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// Link carries the connections of one process, to servers in this process or elsewhere, and fails on demand. The
// servers keep working: only this process cannot reach them.
type Link struct {
	dial DialFunc

	mu       sync.Mutex
	conns    map[*faultyConn]struct{}
	cut      bool
	frozen   chan struct{} // not nil while frozen; closed by Unfreeze
	sent     int
	received int
	before   func(n int)
	loss     *loss
	notice   func(what string)

	request, reply time.Duration // the delays
}

// Loss is how a reply gets lost after the server has carried out the request.
type Loss int

const (
	// Reset closes the connection instead of delivering the reply. A client that repeats failed commands repeats this
	// one.
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
var errCut = errors.New("simulate: the network is cut")

// NewLink returns a link without faults, whose connections are those of the system.
func NewLink() *Link {
	return &Link{dial: new(net.Dialer).DialContext, conns: make(map[*faultyConn]struct{})}
}

// Over returns a dial function whose connections go through the link. They are made by dial: [Redis.Dial] of one
// server, or a function that chooses among several.
func (l *Link) Over(dial DialFunc) DialFunc {
	return func(ctx context.Context, transport, addr string) (net.Conn, error) {
		return l.connect(ctx, dial, transport, addr)
	}
}

// Dial connects through the link. It is a [DialFunc].
func (l *Link) Dial(ctx context.Context, transport, addr string) (net.Conn, error) {
	return l.connect(ctx, l.dial, transport, addr)
}

func (l *Link) connect(ctx context.Context, dial DialFunc, transport, addr string) (net.Conn, error) {
	refused := &net.OpError{Op: "dial", Net: transport, Err: errCut}
	if l.isCut() {
		return nil, refused
	}
	conn, err := dial(ctx, transport, addr)
	if err != nil {
		return nil, err
	}
	faulty := &faultyConn{Conn: conn, link: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut { // meanwhile
		_ = conn.Close()
		return nil, refused
	}
	l.conns[faulty] = struct{}{}
	return faulty, nil
}

// Notice has f called with each fault, as it begins and ends.
func (l *Link) Notice(f func(what string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notice = f
}

// note calls the function of Notice. The mutex is held.
func (l *Link) note(what string) {
	if l.notice != nil {
		l.notice(what)
	}
}

func (l *Link) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// Cut closes every connection and refuses new ones.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	l.note("cannot reach the server")
	for c := range l.conns {
		_ = c.Conn.Close()
	}
}

// Restore lets the process dial again.
func (l *Link) Restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
	l.note("reaches the server again")
}

// Delay makes each request reach its server later, and each reply the process. A batch counts as one request.
func (l *Link) Delay(request, reply time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.request, l.reply = request, reply
}

// Freeze stops the process, as SIGSTOP would, until Unfreeze: at its next send, or when it reads what has arrived.
func (l *Link) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = make(chan struct{})
}

// Idle reports whether everything that was sent has been answered.
func (l *Link) Idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.received >= l.sent
}

// Unfreeze undoes Freeze.
func (l *Link) Unfreeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen != nil {
		close(l.frozen)
		l.frozen = nil
	}
}

// Sent counts the sends since the last Observe.
func (l *Link) Sent() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent
}

// Received counts the arrivals since the last Observe.
func (l *Link) Received() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.received
}

// Observe resets both counters. From then on it calls before, if that is not nil, ahead of every send with the number
// of the send, from 1.
func (l *Link) Observe(before func(n int)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent, l.received, l.before = 0, 0, before
}

// LoseReply loses the reply to the nth send from now, counted from 1. When the reply arrives, and so the server has
// carried out the request, notice is called if it is not nil.
func (l *Link) LoseReply(n int, how Loss, notice func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loss = &loss{how: how, after: n, notice: notice}
}

// send is called ahead of every write. It returns the loss that is planned for the reply to this write, or nil.
func (l *Link) send() *loss {
	n, before, due, delay := l.admit()
	if before != nil {
		before(n)
	}
	time.Sleep(delay)
	return due
}

// admit waits while the link is frozen and then counts a send.
func (l *Link) admit() (n int, before func(int), due *loss, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaitUnfreeze()
	l.sent++
	if l.loss != nil {
		if l.loss.after--; l.loss.after == 0 {
			due, l.loss = l.loss, nil
			if due.how != Deliver {
				l.note("sends a request whose reply will be lost")
			}
		}
	}
	return l.sent, l.before, due, l.request
}

func (l *Link) receive() {
	l.mu.Lock()
	delay := l.reply
	l.mu.Unlock()
	time.Sleep(delay)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.received++
	l.awaitUnfreeze()
}

// awaitUnfreeze returns once the link is not frozen. The mutex is held, and released meanwhile.
func (l *Link) awaitUnfreeze() {
	for l.frozen != nil {
		frozen := l.frozen
		l.mu.Unlock()
		<-frozen
		l.mu.Lock()
	}
}

func (l *Link) drop(c *faultyConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// faultyConn is one connection of a [Link].
type faultyConn struct {
	net.Conn
	link *Link

	mu   sync.Mutex
	loss *loss
}

// Write sends p. Clients send one command, or one batch of commands, at a time.
func (c *faultyConn) Write(p []byte) (int, error) {
	if due := c.link.send(); due != nil {
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
	c.link.receive()
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
	c.link.drop(c)
	return c.Conn.Close()
}
