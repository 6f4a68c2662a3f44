// Package servertest has clients that talk to a server of package httpserver as the attackers of a real one do, byte by
// byte. They are all in this process and, in a test of package synctest, in one bubble of time.
package servertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/httpserver"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// Server is a server and its listener.
type Server struct {
	*simulate.Listener
	*httpserver.Server
	t *testing.T
}

// Serve starts a server that is stopped when the test ends.
func Serve(t *testing.T, cfg httpserver.Config, h http.Handler) *Server {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	l := simulate.Listen()
	s := &Server{l, httpserver.New(cfg, h, l), t}
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	t.Cleanup(func() {
		if err := errors.Join(s.Stop(context.Background()), <-done); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return s
}

// Client is a client and its connection. It has no buffers: what the one end writes waits until the other one reads.
type Client struct {
	net.Conn
	Answers *bufio.Reader
	Server  *CountingConn
	t       *testing.T
}

// Client connects a client.
func (s *Server) Client() *Client { return s.ClientFrom("192.0.2.1:1") }

// ClientFrom connects a client that has an address.
func (s *Server) ClientFrom(address string) *Client {
	s.t.Helper()
	near, far := net.Pipe()
	c := &Client{Conn: near, t: s.t, Answers: bufio.NewReader(near), Server: &CountingConn{Conn: far, client: netip.MustParseAddrPort(address)}}
	fail.NowIf(s.t, s.Connect(s.t.Context(), c.Server))
	s.t.Cleanup(func() { _ = near.Close() })
	return c
}

// Header is the header of a request to the local host, without its end.
func Header(method, path string, lines ...string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\n", method, path) + strings.Join(append(lines, ""), "\r\n")
}

// Send sends text.
func (c *Client) Send(text string) {
	c.t.Helper()
	fail.NowIf(c.t, fail.Of(io.WriteString(c, text)))
}

// Answer reads an answer.
func (c *Client) Answer() (status int, body string) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.Answers, nil)
	fail.NowIf(c.t, err)
	text, err := io.ReadAll(resp.Body)
	fail.NowIf(c.t, err)
	_ = resp.Body.Close()
	return resp.StatusCode, string(text)
}

// Want reads an answer that has this status.
func (c *Client) Want(status int) {
	c.t.Helper()
	if got, body := c.Answer(); got != status {
		c.t.Fatalf("%d %s, want %d", got, body, status)
	}
}

// WantClosed waits until the server closes the connection.
func (c *Client) WantClosed() {
	c.t.Helper()
	if _, err := c.Answers.ReadByte(); !errors.Is(err, io.EOF) {
		c.t.Fatalf("read %v, want EOF", err)
	}
}

// Closed reports whether the server has closed the connection.
func (c *Client) Closed() bool {
	// A pipe refuses a deadline when its other end is closed.
	return errors.Is(c.SetReadDeadline(time.Time{}), io.ErrClosedPipe)
}

// CountingConn is the server's end of a connection. It counts the calls that cost the most.
type CountingConn struct {
	net.Conn
	Background, Deadlines atomic.Int64
	halfClosed            atomic.Bool
	client                netip.AddrPort
}

// RemoteAddr implements [net.Conn].
func (c *CountingConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.client) }

// CloseWrite makes later writes fail, as that of a TCP connection does.
func (c *CountingConn) CloseWrite() error {
	c.halfClosed.Store(true)
	return nil
}

// Write implements [net.Conn].
func (c *CountingConn) Write(p []byte) (int, error) {
	if c.halfClosed.Load() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// Read implements [net.Conn].
func (c *CountingConn) Read(p []byte) (int, error) {
	if len(p) == 1 {
		c.Background.Add(1)
	}
	return c.Conn.Read(p)
}

// SetReadDeadline implements [net.Conn].
func (c *CountingConn) SetReadDeadline(t time.Time) error {
	c.Deadlines.Add(1)
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements [net.Conn].
func (c *CountingConn) SetWriteDeadline(t time.Time) error {
	c.Deadlines.Add(1)
	return c.Conn.SetWriteDeadline(t)
}
