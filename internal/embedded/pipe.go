package embedded

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Pipe returns the two ends of a connection in this process. Unlike those of [net.Pipe] its writes do not wait until
// the other end reads, since a client writes a whole pipeline before it reads the first reply.
func Pipe() (a, b net.Conn) {
	there, back := newStream(), newStream()
	return &end{in: back, out: there}, &end{in: there, out: back}
}

// stream is one direction of a connection.
type stream struct {
	mu       sync.Mutex
	more     *sync.Cond // signalled when the fields below change
	buffer   []byte
	closed   bool
	deadline time.Time
	timer    *time.Timer
}

func newStream() *stream {
	s := &stream{}
	s.more = sync.NewCond(&s.mu)
	return s
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, net.ErrClosed
	}
	s.buffer = append(s.buffer, p...)
	s.more.Broadcast()
	return len(p), nil
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.buffer) == 0 {
		switch {
		case s.closed:
			return 0, io.EOF
		case !s.deadline.IsZero() && !time.Now().Before(s.deadline):
			return 0, os.ErrDeadlineExceeded
		}
		s.more.Wait()
	}
	n := copy(p, s.buffer)
	s.buffer = s.buffer[n:]
	return n, nil
}

func (s *stream) setDeadline(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = at
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if !at.IsZero() {
		s.timer = time.AfterFunc(time.Until(at), s.wake)
	}
	s.more.Broadcast()
}

// wake lets readers look at the deadline.
func (s *stream) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.more.Broadcast()
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.more.Broadcast()
}

// end is one end of a connection.
type end struct{ in, out *stream }

var _ net.Conn = (*end)(nil)

// address is what both ends of a connection call themselves.
var address = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}

// Read implements [net.Conn].
func (e *end) Read(p []byte) (int, error) { return e.in.read(p) }

// Write implements [net.Conn]. It never waits.
func (e *end) Write(p []byte) (int, error) { return e.out.write(p) }

// Close implements [net.Conn].
func (e *end) Close() error {
	e.in.close()
	e.out.close()
	return nil
}

// LocalAddr implements [net.Conn].
func (e *end) LocalAddr() net.Addr { return address }

// RemoteAddr implements [net.Conn].
func (e *end) RemoteAddr() net.Addr { return address }

// SetDeadline implements [net.Conn].
func (e *end) SetDeadline(at time.Time) error { return e.SetReadDeadline(at) }

// SetReadDeadline implements [net.Conn].
func (e *end) SetReadDeadline(at time.Time) error {
	e.in.setDeadline(at)
	return nil
}

// SetWriteDeadline implements [net.Conn]. Writes never wait, so there is nothing to end.
func (e *end) SetWriteDeadline(time.Time) error { return nil }
