package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/httpapi"
	"seckill/internal/order"
)

// pipes is a listener whose connections have no buffers: a write waits until the client reads.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.closed) }); return nil }

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// ask connects and sends a request.
func (p *pipes) ask(t *testing.T, path string) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	p.conns <- server
	if _, err := io.WriteString(client, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return client
}

// silentClients has eight clients request a path and read nothing of the answers.
func silentClients(t *testing.T, path string) (*pipes, *httpapi.Server, []net.Conn) {
	t.Helper()
	r, l := newFixture(t, lab), newPipes()
	server := r.api.Server(r.handler, l)
	done := make(chan error, 1)
	go func() { done <- server.Serve() }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	var deaf []net.Conn
	for range 8 {
		deaf = append(deaf, l.ask(t, path))
	}
	synctest.Wait()
	return l, server, deaf
}

func stopNow(t *testing.T, server *httpapi.Server) {
	t.Helper()
	if err := server.Stop(t.Context()); err != nil {
		t.Errorf("Stop: %v", err)
	}
}

// Clients that do not read occupy none of the slots in which answers are rendered, and are disconnected
// after a while.
func TestMetricsAreAnsweredWhileOthersDoNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, server, deaf := silentClients(t, "/metrics")
		conn, began := l.ask(t, "/metrics"), time.Now()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_, _ = resp.Body.Close(), conn.Close()
		if took := time.Since(began); resp.StatusCode != http.StatusOK || took != 0 {
			t.Errorf("%s after %v", resp.Status, took)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		for _, conn := range deaf {
			if !closed(conn) {
				t.Error("a client that did not read for 11s still has its connection")
			}
		}
		stopNow(t, server)
	})
}

// A client that does not read delays a stop by two seconds at most.
func TestStopDoesNotWaitForClientsThatDoNotRead(t *testing.T) {
	for _, path := range []string{"/metrics", "/readyz", "/api/v1/vouchers"} {
		synctest.Test(t, func(t *testing.T) {
			_, server, deaf := silentClients(t, path)
			began := time.Now()
			stopNow(t, server)
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("%s: the stop took %v", path, took)
			}
			for _, conn := range deaf {
				_ = conn.Close()
			}
		})
	}
}

// The kernel keeps a bounded amount of what a client does not read, instead of megabytes for each connection.
func TestUnreadAnswersAreBounded(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := httpapi.ListenBriefly(newFixture(t, lab).api.LimitConnections(inner), time.Second)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.(*net.TCPConn).SetReadBuffer(16 << 10); err != nil { // by itself it may take megabytes
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	// The service's buffer and the client's, with what a kernel adds to both.
	const bound = 512 << 10
	taken, err := server.Write(make([]byte, 16<<20))
	t.Logf("%d kB were taken of an answer that nobody read", taken>>10)
	if !errors.Is(err, os.ErrDeadlineExceeded) || taken > bound {
		t.Errorf("%d bytes were taken, then %v; want %d at most, then the deadline", taken, err, bound)
	}
}

// A request that still runs when the timeout of a stop is over is cancelled, and answered.
func TestStopCancelsWorkAndAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l := newFixture(t, lab), newPipes()
		r.orders.place = func(ctx context.Context, _ order.Request) (order.Order, error) {
			<-ctx.Done()
			return order.Order{}, ctx.Err()
		}
		server := r.api.Server(r.handler, l)
		done := make(chan error, 1)
		go func() { done <- server.Serve() }()
		client, conn := net.Pipe()
		l.conns <- conn
		_, _ = io.WriteString(client, "POST /api/v1/vouchers/1/orders HTTP/1.1\r\nHost: localhost\r\nX-User-ID: 42\r\nContent-Length: 0\r\n\r\n")
		synctest.Wait()
		stopped := make(chan error, 1)
		go func() {
			finishing, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			stopped <- server.Stop(finishing)
		}()
		began := time.Now()
		resp, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_, _ = resp.Body.Close(), client.Close()
		if took := time.Since(began); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), `"unavailable"`) || took != 10*time.Second {
			t.Errorf("%s %s after %v", resp.Status, body, took)
		}
		if err := errors.Join(<-stopped, <-done); err != nil {
			t.Errorf("the stop ended with %v", err)
		}
	})
}

// closed reports whether the server has closed a connection.
func closed(conn net.Conn) bool {
	defer conn.Close()
	// A pipe refuses a deadline when its other end is closed.
	return errors.Is(conn.SetReadDeadline(time.Now().Add(time.Second)), io.ErrClosedPipe)
}
