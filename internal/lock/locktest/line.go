package locktest

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// Line is what the connections of one process go through. It fails on demand:
// the server is as well as ever, the process only thinks otherwise.
type Line struct {
	mu       sync.Mutex
	conns    map[*wire]struct{}
	cut      bool
	frozen   chan struct{} // not nil while frozen; closed by Thaw
	sent     int
	received int
	before   func(n int)
	loss     *loss
}

// Loss is how a reply gets lost after the server did what it was asked.
type Loss int

const (
	// Reset closes the connection in place of the reply. A client that repeats
	// commands repeats this one.
	Reset Loss = iota
	// Silence lets the connection stand, and nothing ever arrives on it again.
	Silence
	// Notice delivers the reply after all.
	Notice
)

// loss is a loss to come.
type loss struct {
	how    Loss
	after  int // how many sends from now
	notice func()
}

// errCut is what a process gets on a line that was cut.
var errCut = errors.New("locktest: the line is cut")

// NewLine returns a line that works.
func NewLine() *Line { return &Line{conns: make(map[*wire]struct{})} }

// Dial connects through the line. Its signature is that of net.Dialer.DialContext.
func (l *Line) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if l.isCut() {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errCut}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: conn, line: l}
	l.mu.Lock()
	l.conns[w] = struct{}{}
	l.mu.Unlock()
	return w, nil
}

func (l *Line) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// Cut closes every connection and refuses new ones.
func (l *Line) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for w := range l.conns {
		_ = w.Conn.Close()
	}
}

// Mend lets the process dial again.
func (l *Line) Mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
}

// Freeze stops the process at its next send, as SIGSTOP would, until Thaw.
func (l *Line) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = make(chan struct{})
}

// Idle says whether everything that was sent has been answered.
func (l *Line) Idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.received >= l.sent
}

// Thaw undoes Freeze.
func (l *Line) Thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.frozen)
	l.frozen = nil
}

// Sent counts the sends since the last Watch.
func (l *Line) Sent() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent
}

// Received counts the arrivals since the last Watch.
func (l *Line) Received() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.received
}

// Watch starts both counts anew and calls before, where it is not nil, ahead of
// every send with its number, from 1.
func (l *Line) Watch(before func(n int)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent, l.received, l.before = 0, 0, before
}

// LoseReply loses the reply to the nth send from now, from 1. By then the server
// has carried it out, and notice, where it is not nil, is called.
func (l *Line) LoseReply(n int, how Loss, notice func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loss = &loss{how: how, after: n, notice: notice}
}

// send is called ahead of every write. It returns the loss that this write's
// reply shall suffer, if any.
func (l *Line) send() *loss {
	n, before, due := l.admit()
	if before != nil {
		before(n)
	}
	return due
}

// admit counts a send once the line is not frozen.
func (l *Line) admit() (n int, before func(int), due *loss) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.frozen != nil {
		frozen := l.frozen
		l.mu.Unlock()
		<-frozen
		l.mu.Lock()
	}
	l.sent++
	if l.loss != nil {
		if l.loss.after--; l.loss.after == 0 {
			due, l.loss = l.loss, nil
		}
	}
	return l.sent, l.before, due
}

func (l *Line) receive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.received++
}

func (l *Line) drop(w *wire) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, w)
}

// wire is one connection.
type wire struct {
	net.Conn
	line *Line

	mu   sync.Mutex
	loss *loss
}

// Write sends. Clients send one command, or one batch of them, at a time.
func (w *wire) Write(p []byte) (int, error) {
	if due := w.line.send(); due != nil {
		w.mu.Lock()
		w.loss = due
		w.mu.Unlock()
	}
	return w.Conn.Write(p)
}

// Read receives, or loses what was received.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err != nil {
		return n, err
	}
	w.mu.Lock()
	due := w.loss
	w.loss = nil
	w.mu.Unlock()
	w.line.receive()
	if due == nil {
		return n, nil
	}
	if due.notice != nil {
		due.notice()
	}
	switch due.how {
	case Reset:
		_ = w.Conn.Close()
		return 0, io.EOF
	case Silence:
		for err == nil {
			_, err = w.Conn.Read(p) // until the client's deadline, or its Close
		}
		return 0, err
	}
	return n, nil
}

// Close closes the connection.
func (w *wire) Close() error {
	w.line.drop(w)
	return w.Conn.Close()
}
