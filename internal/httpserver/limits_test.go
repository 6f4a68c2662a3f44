package httpserver_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/httpserver"
	"seckill/internal/httpserver/servertest"
	"seckill/internal/testkit/fail"
)

// Connections are limited in all, and for each IPv4 address and each IPv6 /64 except from loopback. One beyond a limit
// is answered and closed.
func TestConnectionsAreLimited(t *testing.T) {
	const refusal = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
	for name, c := range map[string]struct {
		all, ofClient int
		open          []string
		next          map[string]bool // whether another connection is accepted; it is closed at once
	}{
		"in all": {2, 0, []string{"192.0.2.1:1", "192.0.2.2:1"}, map[string]bool{"192.0.2.3:1": false, "127.0.0.1:1": false}},
		"per address": {0, 1, []string{"192.0.2.1:1", "[2001:db8::1]:1", "127.0.0.1:1"}, map[string]bool{
			"192.0.2.1:2": false, "[2001:db8::2]:1": false, "192.0.2.2:1": true, "[2001:db8:0:1::1]:1": true, "127.0.0.1:2": true, "[::1]:1": true,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shed := prometheus.NewCounter(prometheus.CounterOpts{})
				s := servertest.Serve(t, httpserver.Config{Connections: httpserver.NewLimiter(c.all, c.ofClient, shed, shed), Refusal: refusal}, doing(nothing))
				// dial returns a client, and whether it was accepted.
				dial := func(from string) (*servertest.Client, bool) {
					client := s.ClientFrom(from)
					go func() { _, _ = io.WriteString(client, aRequest) }()
					status, _ := client.Answer()
					if status == http.StatusServiceUnavailable {
						client.WantClosed()
					}
					return client, status == http.StatusCreated
				}
				var open []*servertest.Client
				for _, from := range c.open {
					client, _ := dial(from)
					open = append(open, client)
				}
				for from, want := range c.next {
					client, accepted := dial(from)
					fail.Unequal(t, accepted, want, "a connection from %s", from)
					_ = client.Close()
					synctest.Wait()
				}
				_ = open[0].Close()
				synctest.Wait()
				if _, accepted := dial(c.open[0]); !accepted {
					t.Error("refused although another connection was closed")
				}
			})
		})
	}
}
