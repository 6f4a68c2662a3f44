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
	"testing/synctest"
	"time"

	"seckill/internal/order"
)

const anOrder = "POST /api/v1/vouchers/1/orders HTTP/1.1\r\nHost: localhost\r\nX-User-ID: 42\r\nContent-Length: 0\r\n\r\n"

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

// client is a client of a server of its own, both in one bubble of time.
type client struct {
	net.Conn
	t       *testing.T
	answers *bufio.Reader
	server  *countingConn
}

// connect serves orders that place places. The server is stopped when the test ends.
func connect(t *testing.T, place func(context.Context) error) *client {
	t.Helper()
	r, l := newFixture(t, lab), newPipes()
	r.orders.place = func(ctx context.Context, _ order.Request) (order.Order, error) {
		return order.Order{ID: 7, Status: order.Confirmed}, place(ctx)
	}
	server, done := r.api.Server(r.handler, l), make(chan error, 1)
	go func() { done <- server.Serve() }()
	near, far := net.Pipe()
	c := &client{Conn: near, t: t, answers: bufio.NewReader(near), server: &countingConn{Conn: far}}
	l.conns <- c.server
	t.Cleanup(func() {
		_ = near.Close()
		stopNow(t, server)
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return c
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads an answer and returns its status.
func (c *client) answer() int {
	c.t.Helper()
	resp, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

func (c *client) wantCreated() {
	c.t.Helper()
	if status := c.answer(); status != http.StatusCreated {
		c.t.Fatalf("%d, want 201", status)
	}
}

// wantClosed waits until the server closes the connection.
func (c *client) wantClosed() {
	c.t.Helper()
	if _, err := c.answers.ReadByte(); !errors.Is(err, io.EOF) {
		c.t.Fatalf("read %v, want EOF", err)
	}
}

// A request that is answered soon costs no background read and sets no deadline of its own.
func TestSoonAnsweredRequestsShareDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, func(context.Context) error { time.Sleep(time.Millisecond); return nil })
		ask := func(n int) (background, deadlines int64) {
			for range n {
				c.send(anOrder)
				c.wantCreated()
				synctest.Wait()
			}
			return c.server.background.Load(), c.server.deadlines.Load()
		}
		_, before := ask(3)
		background, after := ask(100)
		if background != 0 || after != before {
			t.Errorf("%d background reads and %d deadlines of 100 requests, want none", background, after-before)
		}
	})
}

// A client that leaves is noticed by whoever waits for the end of the request's context, whenever that begins.
func TestLeavingIsNoticed(t *testing.T) {
	for _, waitsAfter := range []time.Duration{0, 20 * time.Millisecond} {
		for _, leavesAfter := range []time.Duration{0, 5 * time.Millisecond, time.Second} {
			synctest.Test(t, func(t *testing.T) {
				noticed := make(chan time.Duration, 1)
				c := connect(t, func(ctx context.Context) error {
					began := time.Now()
					time.Sleep(waitsAfter)
					<-ctx.Done()
					noticed <- time.Since(began)
					return ctx.Err()
				})
				c.send(anOrder)
				time.Sleep(leavesAfter)
				_ = c.Close()
				if after := <-noticed; after > max(leavesAfter, waitsAfter) {
					t.Errorf("a client that left after %v was noticed after %v by who waited from %v on", leavesAfter, after, waitsAfter)
				}
			})
		}
	}
}

// Requests that are sent before the one before them is answered are all answered, whether they arrive with the
// first or while it is watched, and also if nobody watches.
func TestPipelinedRequests(t *testing.T) {
	pause := map[string]func(context.Context){
		"nobody waits": func(context.Context) { time.Sleep(100 * time.Millisecond) },
		"waits": func(ctx context.Context) {
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		},
		"waits later": func(ctx context.Context) {
			time.Sleep(20 * time.Millisecond)
			select {
			case <-ctx.Done():
			case <-time.After(80 * time.Millisecond):
			}
		},
	}
	for name, work := range pause {
		for _, gap := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond, 150 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s, %v", name, gap), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := connect(t, func(ctx context.Context) error { work(ctx); return ctx.Err() })
					go func() {
						if gap == 0 {
							_, _ = io.WriteString(c, strings.Repeat(anOrder, 3))
							return
						}
						for i := range 3 {
							time.Sleep(time.Duration(min(i, 1)) * gap)
							_, _ = io.WriteString(c, anOrder)
						}
					}()
					for range 3 {
						c.wantCreated()
					}
				})
			})
		}
	}
}

// Somebody who waits for the end of the context takes nothing from a body that arrives meanwhile.
func TestWatchingLeavesTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l := newFixture(t, lab), newPipes()
		const sent = `{"a":"body that arrives in pieces"}`
		if err := r.api.AddRoute(http.MethodPost, "/watching", false, func(ctx context.Context, body func() ([]byte, error)) error {
			_ = ctx.Done()
			time.Sleep(30 * time.Millisecond)
			if got, err := body(); err != nil || string(got) != sent {
				t.Errorf("read %q, %v; want %q", got, err, sent)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		server, done := r.api.Server(r.handler, l), make(chan error, 1)
		go func() { done <- server.Serve() }()
		near, far := net.Pipe()
		l.conns <- far
		answers := bufio.NewReader(near)
		for range 3 {
			head := fmt.Sprintf("POST /watching HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(sent))
			go func() {
				for _, piece := range []string{head, sent[:1], sent[1:2], sent[2:]} {
					time.Sleep(20 * time.Millisecond)
					_, _ = io.WriteString(near, piece)
				}
			}()
			resp, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s, want 200", resp.Status)
			}
			time.Sleep(time.Second)
		}
		_ = near.Close()
		stopNow(t, server)
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

// The deadlines that are shared still end a connection: one that is idle, and one whose header does not end.
func TestSharedDeadlinesStillEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		sent            string
		earliest, until time.Duration
	}{
		"idle":          {"", 119 * time.Second, 2 * time.Minute},
		"half a header": {"POST / HTTP/1.1\r\n", 9 * time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := connect(t, func(context.Context) error { return nil })
				for range 20 {
					c.send(anOrder)
					c.wantCreated()
					time.Sleep(300 * time.Millisecond)
				}
				began := time.Now()
				c.send(tt.sent)
				c.wantClosed()
				// The last request was 300 ms before.
				if took := time.Since(began) + 300*time.Millisecond; took < tt.earliest || took > tt.until+300*time.Millisecond {
					t.Errorf("closed after %v, want %v to %v", took, tt.earliest, tt.until)
				}
			})
		})
	}
}

// A request that takes longer than the deadlines is not cut off by one of an earlier read.
func TestLongWorkOutlivesDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(7 * time.Second): // less than the deadline of a request
				return nil
			}
		})
		for range 20 { // longer than an idle connection lives
			c.send(anOrder)
			c.wantCreated()
		}
	})
}
