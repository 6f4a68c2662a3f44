package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/httpapi"
)

// unread is the answer to a client that reads only from a moment on.
type unread struct {
	*httptest.ResponseRecorder
	from <-chan struct{}
}

func (w unread) Write(p []byte) (int, error) { <-w.from; return w.ResponseRecorder.Write(p) }

// Requests for /metrics that wait, or whose answers are not read, are bounded in all and for each address.
func TestScrapesAreBounded(t *testing.T) {
	address := func(i int) string { return fmt.Sprintf("192.0.2.%d:1", i) }
	for name, c := range map[string]struct {
		unread int
		from   func(i int) string // the i-th client that does not read
		next   map[string]int     // what is answered to another client, by its address
	}{
		"of an address": {httpapi.MaxBufferedPerAddress, func(int) string { return address(1) }, map[string]int{address(1): 503, address(2): 200}},
		"in all":        {httpapi.MaxBuffered, func(i int) string { return address(i % 250) }, map[string]int{address(251): 503}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFixture(t)
				ask := func(w http.ResponseWriter, from string) {
					req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
					req.RemoteAddr = from
					r.api.Debug().ServeHTTP(w, req)
				}
				read := make(chan struct{})
				for i := range c.unread {
					go ask(unread{httptest.NewRecorder(), read}, c.from(i))
				}
				synctest.Wait()
				for from, want := range c.next {
					rec := httptest.NewRecorder()
					ask(rec, from)
					if refused := want == http.StatusServiceUnavailable; rec.Code != want || refused && rec.Header().Get("Retry-After") != "1" {
						t.Errorf("from %s: %d with %v, want %d", from, rec.Code, rec.Header(), want)
					}
				}
				close(read)
				synctest.Wait()
				for from := range c.next {
					rec := httptest.NewRecorder()
					if ask(rec, from); rec.Code != http.StatusOK {
						t.Errorf("from %s, after the others have read: %d", from, rec.Code)
					}
				}
			})
		})
	}
}

// While a check hangs and more requests wait for it than may, the balancer is told the previous result at once.
func TestReadinessInAFlood(t *testing.T) {
	hangs := make(chan struct{})
	var asked atomic.Int64
	r := newFixture(t, func(_ *httpapi.Config, r *fixture) {
		r.checks = []httpapi.Check{{Name: "database", Ask: func(context.Context) error {
			if asked.Add(1) == 1 {
				return nil
			}
			<-hangs
			return errors.New("it hung")
		}}}
	})
	ready := func() int { return get(r.api.Debug(), "/readyz").Code }
	if code := ready(); code != http.StatusOK {
		t.Fatal(code)
	}
	time.Sleep(httpapi.CheckEvery) // from here on the result is not recent
	codes := make(chan int)
	for range httpapi.MaxWaitForChecks + 1 {
		go func() { codes <- ready() }()
	}
	select {
	case code := <-codes: // nobody else can be answered
		if code != http.StatusOK {
			t.Errorf("beyond the limit: %d, want the previous result", code)
		}
	case <-time.After(time.Minute):
		close(hangs)
		t.Fatal("all requests wait for the check")
	}
	close(hangs)
	for range httpapi.MaxWaitForChecks {
		if code := <-codes; code != http.StatusServiceUnavailable {
			t.Errorf("a request that waited was told %d", code)
		}
	}
}

// Requests without a user are limited for each IPv4 address and each IPv6 /64.
func TestRequestsPerAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, lab, func(cfg *httpapi.Config, _ *fixture) { cfg.Limits = httpapi.Limits{RequestsPerAddress: 2} })
		free := make(chan struct{})
		if err := r.api.AddRoute("GET", "/slow", false, func(context.Context, func() ([]byte, error)) error { <-free; return nil }); err != nil {
			t.Fatal(err)
		}
		ask := func(path, from string) int {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			req.RemoteAddr = from
			rec := httptest.NewRecorder()
			r.handler.ServeHTTP(rec, req)
			return rec.Code
		}
		for _, from := range []string{"192.0.2.1:1", "192.0.2.1:2", "[2001:db8::1]:1", "[2001:db8::2]:1"} {
			go ask("/slow", from)
		}
		synctest.Wait()
		for from, want := range map[string]int{
			"192.0.2.1:3": 429, "[::ffff:192.0.2.1]:3": 429, "192.0.2.2:1": 200, "[2001:db8::3]:1": 429, "[2001:db8:0:1::1]:1": 200,
		} {
			if got := ask("/api/v1/vouchers", from); got != want {
				t.Errorf("from %s: %d, want %d", from, got, want)
			}
		}
		close(free)
		synctest.Wait()
		if got := ask("/api/v1/vouchers", "192.0.2.1:3"); got != http.StatusOK {
			t.Errorf("afterwards: %d", got)
		}
	})
}

// fromAddress is a connection from a given client.
type fromAddress struct {
	net.Conn
	client netip.AddrPort
}

func (c fromAddress) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.client) }

// Connections are limited for each IPv4 address and each IPv6 /64, except from loopback.
func TestConnectionsPerAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, lab, func(cfg *httpapi.Config, _ *fixture) { cfg.Limits = httpapi.Limits{ConnectionsPerAddress: 1} })
		inner := newPipes()
		l, accepted := r.api.LimitConnections(inner), make(chan net.Conn)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					close(accepted)
					return
				}
				accepted <- c
			}
		}()
		// dial returns the connection, or nil if it was refused.
		dial := func(from string) net.Conn {
			near, far := net.Pipe()
			inner.conns <- fromAddress{far, netip.MustParseAddrPort(from)}
			refusal := make(chan string, 1)
			go func() {
				text, _ := io.ReadAll(near)
				refusal <- string(text)
			}()
			select {
			case c := <-accepted:
				return c
			case text := <-refusal:
				if !strings.HasPrefix(text, "HTTP/1.1 503 ") {
					t.Errorf("from %s: %q", from, text)
				}
				return nil
			}
		}
		first := dial("192.0.2.1:1")
		open := []net.Conn{first, dial("[2001:db8::1]:1"), dial("127.0.0.1:1")}
		for from, want := range map[string]bool{
			"192.0.2.1:2": false, "[2001:db8::2]:1": false, "192.0.2.2:1": true, "[2001:db8:0:1::1]:1": true, "127.0.0.1:2": true, "[::1]:1": true,
		} {
			c := dial(from)
			if (c != nil) != want {
				t.Errorf("a connection from %s: accepted %v, want %v", from, c != nil, want)
			}
			if c != nil {
				open = append(open, c)
			}
		}
		_ = first.Close()
		if c := dial("192.0.2.1:3"); c == nil {
			t.Error("refused although the address has no connection any more")
		} else {
			open = append(open, c)
		}
		for _, c := range open {
			_ = c.Close()
		}
		_ = inner.Close()
		<-accepted
	})
}
