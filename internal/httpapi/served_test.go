package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/httpapi"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// server is an API behind the service's own server, in this process: it and its clients are in one bubble of time.
type server struct {
	*simulate.Listener
	*httpapi.Server
	t *testing.T
}

// listen starts a server that is stopped when the test ends.
func (r *fixture) listen(t *testing.T) *server {
	t.Helper()
	l := simulate.Listen()
	s := &server{l, r.api.Server(r.handler, l), t}
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	t.Cleanup(func() {
		if err := errors.Join(s.Stop(context.Background()), <-done); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return s
}

// client is a client and its connection. It has no buffers: what the one end writes waits until the other one reads.
type client struct {
	net.Conn
	t       *testing.T
	answers *bufio.Reader
	server  *countingConn
}

func (s *server) connect() *client {
	s.t.Helper()
	near, far := net.Pipe()
	c := &client{Conn: near, t: s.t, answers: bufio.NewReader(near), server: &countingConn{Conn: far}}
	fail.NowIf(s.t, s.Connect(s.t.Context(), c.server))
	s.t.Cleanup(func() { _ = near.Close() })
	return c
}

// connect is a client of a server of its own, which serves orders that place places.
func connect(t *testing.T, place func(context.Context) error) *client {
	t.Helper()
	r := newFixture(t, lab)
	r.orders.place = func(ctx context.Context, _ order.Request) (order.Order, error) {
		return order.Order{ID: 7, Status: order.Confirmed}, place(ctx)
	}
	return r.listen(t).connect()
}

// header is the header of a request to the local host, without its end.
func header(method, path string, lines ...string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\n", method, path) + strings.Join(append(lines, ""), "\r\n")
}

var anOrder = header("POST", "/api/v1/vouchers/1/orders", "X-User-ID: 42", "Content-Length: 0") + "\r\n"

func (c *client) send(text string) {
	c.t.Helper()
	fail.NowIf(c.t, fail.Of(io.WriteString(c, text)))
}

// answer reads an answer.
func (c *client) answer() (status int, body string) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.answers, nil)
	fail.NowIf(c.t, err)
	text, err := io.ReadAll(resp.Body)
	fail.NowIf(c.t, err)
	_ = resp.Body.Close()
	return resp.StatusCode, string(text)
}

func (c *client) want(status int) {
	c.t.Helper()
	if got, body := c.answer(); got != status {
		c.t.Fatalf("%d %s, want %d", got, body, status)
	}
}

// wantClosed waits until the server closes the connection.
func (c *client) wantClosed() {
	c.t.Helper()
	if _, err := c.answers.ReadByte(); !errors.Is(err, io.EOF) {
		c.t.Fatalf("read %v, want EOF", err)
	}
}

// closed reports whether the server has closed the connection.
func (c *client) closed() bool {
	// A pipe refuses a deadline when its other end is closed.
	return errors.Is(c.SetReadDeadline(time.Time{}), io.ErrClosedPipe)
}

// countingConn counts the calls that cost the most.
type countingConn struct {
	net.Conn
	background, deadlines atomic.Int64
	halfClosed            atomic.Bool
}

// CloseWrite makes later writes fail, as that of a TCP connection does.
func (c *countingConn) CloseWrite() error {
	c.halfClosed.Store(true)
	return nil
}

func (c *countingConn) Write(p []byte) (int, error) {
	if c.halfClosed.Load() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func (c *countingConn) Read(p []byte) (int, error) {
	if len(p) == 1 {
		c.background.Add(1)
	}
	return c.Conn.Read(p)
}

func (c *countingConn) SetReadDeadline(t time.Time) error {
	c.deadlines.Add(1)
	return c.Conn.SetReadDeadline(t)
}

func (c *countingConn) SetWriteDeadline(t time.Time) error {
	c.deadlines.Add(1)
	return c.Conn.SetWriteDeadline(t)
}
