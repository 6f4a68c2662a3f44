package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"seckill/internal/httpapi"
	"seckill/internal/testkit/fail"
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
		"of an address": {httpapi.MaxScrapesPerAddress, func(int) string { return address(1) }, map[string]int{address(1): 503, address(2): 200}},
		"in all":        {httpapi.MaxScrapes, func(i int) string { return address(i % 250) }, map[string]int{address(251): 503}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFixture(t)
				ask := func(w http.ResponseWriter, from string) {
					r.api.Debug().ServeHTTP(w, newRequest(t.Context(), "GET", "/metrics", nil, "Remote-Addr: "+from))
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

// Requests without a user are limited for each IPv4 address and each IPv6 /64.
func TestRequestsPerAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, lab, func(cfg *httpapi.Config, _ *fixture) { cfg.Limits = httpapi.Limits{RequestsPerAddress: 2} })
		free := make(chan struct{})
		fail.NowIf(t, r.api.AddRoute("GET", "/slow", false, func(context.Context, func() ([]byte, error)) error { <-free; return nil }))
		ask := func(path, from string) int {
			return r.serve(t.Context(), "GET", path, "Remote-Addr: "+from).Code
		}
		for _, from := range []string{"192.0.2.1:1", "192.0.2.1:2", "[2001:db8::1]:1", "[2001:db8::2]:1"} {
			go ask("/slow", from)
		}
		synctest.Wait()
		for from, want := range map[string]int{
			"192.0.2.1:3": 429, "[::ffff:192.0.2.1]:3": 429, "192.0.2.2:1": 200, "[2001:db8::3]:1": 429, "[2001:db8:0:1::1]:1": 200,
		} {
			fail.Unequal(t, ask("/api/v1/vouchers", from), want, "from %s", from)
		}
		close(free)
		synctest.Wait()
		fail.Unequal(t, ask("/api/v1/vouchers", "192.0.2.1:3"), http.StatusOK, "afterwards")
	})
}

// A connection beyond the limits is answered with a problem and closed.
func TestConnectionsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t, lab, func(cfg *httpapi.Config, _ *fixture) { cfg.Limits = httpapi.Limits{Connections: 1} }).listen(t)
		s.Client()
		refused := s.Client()
		if status, body := refused.Answer(); status != http.StatusServiceUnavailable || !strings.Contains(body, `"code":"unavailable"`) || !json.Valid([]byte(body)) {
			t.Errorf("%d %s", status, body)
		}
		refused.WantClosed()
	})
}
