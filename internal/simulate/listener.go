package simulate

import (
	"context"
	"net"
	"sync"

	"seckill/internal/embedded"
)

// Listener is a listener in this process: a server on it and its clients run in one bubble of time.
type Listener struct {
	arriving chan net.Conn
	closed   chan struct{}
	close    func()
}

var _ net.Listener = (*Listener)(nil)

// Listen returns a listener. In a bubble, call it from inside.
func Listen() *Listener {
	l := &Listener{arriving: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

// Dial connects to the server. It is for the DialContext of a transport.
func (l *Listener) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	client, server := embedded.Pipe()
	if err := l.Connect(ctx, server); err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	return client, nil
}

// Connect hands the server its end of a connection, and returns once it was accepted.
func (l *Listener) Connect(ctx context.Context, server net.Conn) error {
	select {
	case l.arriving <- server:
		return nil
	case <-l.closed:
		return net.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.arriving:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *Listener) Close() error {
	l.close()
	return nil
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
