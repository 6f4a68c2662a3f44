package httpapi_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"seckill/internal/httpapi"
	"seckill/internal/testkit/fail"
)

// labAt is lab mode with these host names, besides those of loopback.
func labAt(names ...string) option {
	return func(c *httpapi.Config, _ *fixture) { c.Lab, c.LabHosts = true, names }
}

const mint = "/api/v1/tokens"

// sent sends a request of a browser or another client to a host.
func sent(ctx context.Context, h http.Handler, method, path, host string, headers ...string) *httptest.ResponseRecorder {
	headers = append([]string{"Host: " + host, "Content-Type: application/json"}, headers...)
	return ask(ctx, h, method, path, strings.NewReader(`{"user_id":"42"}`), headers...)
}

// TestLabModeKnowsItsHosts is about DNS rebinding: if the name of a page resolves to this server, the browser sends
// that name in the Host header.
func TestLabModeKnowsItsHosts(t *testing.T) {
	for _, c := range []struct {
		host string
		ok   bool
	}{
		{"localhost:8080", true}, {"LocalHost", true}, {"localhost.:8080", true},
		{"127.0.0.1:8080", true}, {"127.0.0.1", true}, {"127.8.9.10:1", true}, {"[::1]:8080", true}, {"[::1]", true},
		{"[::ffff:127.0.0.1]:80", true},
		{"api-1:8080", true}, {"API-1", true}, {"10.1.2.3:8080", true}, {"[fe80::7]:8080", true},
		{"192.0.2.1:8080", true}, // where the connection arrived
		{"rebind.attacker.example:8080", false}, {"rebind.attacker.example", false},
		{"localhost.attacker.example", false}, {"127.0.0.1.attacker.example", false}, {"attacker-localhost", false}, {"shop.localhost:8080", true},
		{"10.1.2.4:8080", false}, {"192.0.2.2", false}, {"0.0.0.0:8080", false}, {"[::]:8080", false},
		{":8080", false}, {"2130706433", false}, {"127.1", false}, {"api-1:8080:8080", false},
	} {
		t.Run(c.host, func(t *testing.T) {
			r := newFixture(t, labAt("api-1", "10.1.2.3", "fe80::7"), withSite(t))
			ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 8080}))
			for _, to := range []struct {
				h            http.Handler
				method, path string
				want         int
			}{
				{r.handler, "POST", mint, http.StatusCreated},
				{r.handler, "GET", "/api/v1/vouchers", http.StatusOK},
				{r.handler, "GET", "/metrics", http.StatusOK},
				{r.handler, "GET", "/", http.StatusOK},
				{r.handler, "GET", "/static/x/buyers.js", http.StatusOK},
				{r.api.Debug(), "GET", "/debug/pprof/cmdline", http.StatusOK},
			} {
				rec := sent(ctx, to.h, to.method, to.path, c.host)
				if c.ok && rec.Code != to.want {
					t.Errorf("%s %s: status %d, want %d: %s", to.method, to.path, rec.Code, to.want, rec.Body)
				}
				if !c.ok && (rec.Code != http.StatusForbidden || !strings.Contains(rec.Body.String(), "SECKILL_LAB_HOSTS")) {
					t.Errorf("%s %s: status %d, want 403 that names the setting: %s", to.method, to.path, rec.Code, rec.Body)
				}
			}
		})
	}
}

// A health check in HTTP/1.0, as haproxy's, has no Host.
func TestProbesNeedNoHost(t *testing.T) {
	r := newFixture(t, lab)
	for _, path := range []string{"/readyz", "/livez", "/metrics"} {
		if rec := sent(t.Context(), r.handler, "GET", path, ""); rec.Code != http.StatusOK {
			t.Errorf("GET %s without Host: status %d: %s", path, rec.Code, rec.Body)
		}
	}
	fail.Unequal(t, sent(t.Context(), r.handler, "POST", mint, "").Code, http.StatusForbidden, "POST %s without Host", mint)
}

// TestLabModeRefusesOtherSites is about what a page of another site can send without rebinding: the address is right,
// and the browser names the origin. Every route that changes something refuses it.
func TestLabModeRefusesOtherSites(t *testing.T) {
	r := newFixture(t, lab, withSite(t))
	r.undescribed = true
	var changes []string
	for _, operation := range r.api.Operations() {
		if !strings.HasPrefix(operation, "GET ") {
			changes = append(changes, strings.NewReplacer(":id", "7", "*key", "k").Replace(operation))
		}
	}
	if len(changes) < 4 {
		t.Errorf("only %q change something", changes)
	}
	const here = "127.0.0.1:8080"
	for _, c := range []struct {
		name    string
		headers []string
		ok      bool
	}{
		{"no browser", nil, true},
		{"this server's page", []string{"Sec-Fetch-Site: same-origin", "Origin: http://127.0.0.1:8080"}, true},
		{"this server's page, an older browser", []string{"Origin: http://127.0.0.1:8080"}, true},
		{"typed by the user", []string{"Sec-Fetch-Site: none"}, true},
		{"another site's page", []string{"Sec-Fetch-Site: cross-site", "Origin: http://attacker.example"}, false},
		{"another site, no origin", []string{"Sec-Fetch-Site: cross-site"}, false},
		{"another port of this machine", []string{"Sec-Fetch-Site: same-site", "Origin: http://127.0.0.1:3000"}, false},
		{"another site's page, an older browser", []string{"Origin: http://attacker.example"}, false},
		{"another port, an older browser", []string{"Origin: http://127.0.0.1:3000"}, false},
		{"a sandboxed frame or a file", []string{"Origin: null"}, false},
		{"an origin that is none", []string{"Origin: ::"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := sent(t.Context(), r.handler, "POST", mint, here, c.headers...)
			if c.ok && rec.Code != http.StatusCreated {
				t.Errorf("status %d, want 201: %s", rec.Code, rec.Body)
			}
			if !c.ok {
				for _, operation := range changes {
					method, path, _ := strings.Cut(operation, " ")
					wantProblem(t, sent(t.Context(), r.handler, method, path, here, append(c.headers, "X-User-ID: 42")...), http.StatusForbidden, "forbidden")
				}
			}
			rec = sent(t.Context(), r.handler, "GET", "/api/v1/vouchers", here, c.headers...)
			fail.Unequal(t, rec.Code, http.StatusOK, "GET, which changes nothing, and the page cannot read it")
		})
	}
}

// TestNoOtherSiteMayRead checks that there is no CORS header, without which a browser does not show the answer to
// another site. Outside lab mode, where the token decides, any Host is accepted.
func TestNoOtherSiteMayRead(t *testing.T) {
	for name, o := range map[string]option{"lab": lab, "production": func(*httpapi.Config, *fixture) {}} {
		r := newFixture(t, o)
		if rec := sent(t.Context(), r.handler, "GET", "/api/v1/vouchers", "shop.example", "Origin: http://other.example"); (rec.Code == http.StatusOK) != (name == "production") {
			t.Errorf("%s: any Host: %d", name, rec.Code)
		}
		for _, method := range []string{"OPTIONS", "GET", "POST"} {
			for _, path := range []string{"/api/v1/vouchers", mint, "/metrics", "/nowhere"} {
				rec := sent(t.Context(), r.handler, method, path, "example.com", "Origin: http://attacker.example",
					"Access-Control-Request-Method: POST", "Access-Control-Request-Headers: x-user-id,content-type")
				for header := range rec.Header() {
					if strings.HasPrefix(header, "Access-Control-") {
						t.Errorf("%s: %s %s is answered with %s", name, method, path, header)
					}
				}
			}
		}
	}
}

// A GET of the profiles costs time and tells what the process does, and the debug listener asks for no token: the page
// of another site must not reach it through an operator's browser, in lab mode or not.
func TestProfilesAreNotForPages(t *testing.T) {
	arrived := func(ip string) context.Context {
		return context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.ParseIP(ip), Port: 9100}))
	}
	for name, o := range map[string]option{"lab": lab, "production": func(*httpapi.Config, *fixture) {}} {
		r := newFixture(t, o)
		for _, c := range []struct {
			name    string
			host    string
			headers []string
			want    int
		}{
			{"go tool pprof", "localhost:9100", nil, 200},
			{"typed by the operator", "127.0.0.1:9100", []string{"Sec-Fetch-Site: none"}, 200},
			{"another site's page", "127.0.0.1:9100", []string{"Sec-Fetch-Site: cross-site"}, 403},
			{"another port of this machine", "127.0.0.1:9100", []string{"Sec-Fetch-Site: same-site"}, 403},
			{"another site's page, an older browser", "127.0.0.1:9100", []string{"Origin: http://attacker.example"}, 403},
			{"DNS rebinding", "rebind.attacker.example:9100", []string{"Sec-Fetch-Site: same-origin"}, 403},
		} {
			for _, path := range []string{"/debug/pprof/heap?gc=1", "/debug/pprof/", "/debug/pprof/cmdline"} {
				if rec := sent(arrived("127.0.0.1"), r.api.Debug(), "GET", path, c.host, c.headers...); rec.Code != c.want {
					t.Errorf("%s, %s: GET %s: status %d, want %d: %s", name, c.name, path, rec.Code, c.want, rec.Body)
				}
			}
		}
	}
	// Where others reach the listener too, it has any name.
	rec := sent(arrived("10.1.2.3"), newFixture(t).api.Debug(), "GET", "/debug/pprof/cmdline", "api-1:9100")
	fail.Unequal(t, rec.Code, http.StatusOK, "by a name in the cluster")
}
