package lockjudge

import (
	"context"
	"io"
	"net"
	"sync"

	"seckill/internal/lock/locktest"
)

// forwarder lets a process reach a server through a network that fails on demand.
type forwarder struct {
	listener net.Listener
	network  *locktest.Network
	server   string
	running  sync.WaitGroup

	mu     sync.Mutex
	conns  []net.Conn
	closed bool
}

func newForwarder(ctx context.Context, network *locktest.Network, server string) (*forwarder, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &forwarder{listener: listener, network: network, server: server}
	f.running.Go(func() { f.serve(ctx) })
	return f, nil
}

func (f *forwarder) addr() string { return f.listener.Addr().String() }

func (f *forwarder) serve(ctx context.Context) {
	for {
		client, err := f.listener.Accept()
		if err != nil {
			return
		}
		server, err := f.network.Dial(ctx, "tcp", f.server)
		if err != nil || !f.keep(client, server) {
			_ = client.Close() // this tells the client
			continue
		}
		f.running.Go(func() { pass(server, client) })
		f.running.Go(func() { pass(client, server) })
	}
}

// keep remembers connections that have to be closed at the end.
func (f *forwarder) keep(conns ...net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		for _, c := range conns {
			_ = c.Close()
		}
		return false
	}
	f.conns = append(f.conns, conns...)
	return true
}

// pass copies until either side closes, and closes both.
func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from) // an error ends the connection, which is what the other side sees
	_ = to.Close()
	_ = from.Close()
}

func (f *forwarder) close() {
	_ = f.listener.Close()
	f.mu.Lock()
	f.closed = true
	for _, c := range f.conns {
		_ = c.Close()
	}
	f.mu.Unlock()
	f.running.Wait()
}
