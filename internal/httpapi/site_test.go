package httpapi_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"seckill/internal/httpapi"
	"seckill/internal/testkit/fail"
	"seckill/internal/web"
)

// withSite adds the real pages.
func withSite(t *testing.T) option {
	return func(c *httpapi.Config, r *fixture) {
		site, err := web.New(web.Config{Lab: c.Lab})
		fail.NowIf(t, err)
		r.site = site
	}
}

func TestSiteIsServed(t *testing.T) {
	r := newFixture(t, lab, withSite(t))
	for _, method := range []string{"GET", "HEAD"} {
		rec := sent(t.Context(), r.handler, method, "/", "example.com", "Accept-Encoding: gzip")
		h := rec.Header()
		if rec.Code != http.StatusOK || !strings.HasPrefix(h.Get("Content-Type"), "text/html") || h.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %d %v", method, rec.Code, h)
		}
		if h.Get("Content-Security-Policy") == "" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Request-ID") == "" {
			t.Errorf("%s: %v", method, h)
		}
	}
	wantProblem(t, sent(t.Context(), r.handler, "GET", "/static/x/nothing.js", "example.com"), http.StatusNotFound, "not_found")
	wantProblem(t, sent(t.Context(), r.handler, "POST", "/", "example.com"), http.StatusMethodNotAllowed, "method_not_allowed")
	wantProblem(t, get(newFixture(t).handler, "/"), http.StatusNotFound, "not_found") // without a site
	metrics := get(r.api.Debug(), "/metrics").Body.String()
	fail.Without(t, metrics,
		`seckill_http_requests_total{class="2xx",method="GET",route="/"} 1`,
		`seckill_http_requests_total{class="4xx",method="GET",route="/static/*file"} 1`,
	)
}

// An encoded slash separates nothing, as in the routes of the API.
func TestSiteAndEncodedSlashes(t *testing.T) {
	r := newFixture(t, lab, withSite(t))
	for _, path := range []string{"/static/x%2Fbuyers.js", "/static/x%2fbuyers.js", "/static%2Fx/buyers.js", "/static%2fx%2fbuyers.js", "/%2Fconsole"} {
		wantProblem(t, sent(t.Context(), r.handler, "GET", path, "example.com"), http.StatusNotFound, "not_found")
	}
	for _, path := range []string{"/static/x/buyers.js", "/static/x/%62uyers.js"} {
		fail.Unequal(t, sent(t.Context(), r.handler, "GET", path, "example.com").Code, http.StatusOK, "%s", path)
	}
}

// The pages have words for every refusal. What will pass is not one: the page tries again.
func TestEveryRefusalHasWords(t *testing.T) {
	languages, err := web.Messages()
	fail.NowIf(t, err)
	without := []string{"busy", "unavailable", "rate_limited", "not_found", "method_not_allowed", "payload_too_large", "client_gone"}
	for _, p := range httpapi.Problems() {
		_, code, _ := strings.Cut(p, " ")
		for _, language := range slices.Sorted(maps.Keys(languages)) {
			if languages[language]["refused."+code] == "" && !slices.Contains(without, code) {
				t.Errorf("%s has no words for %s", language, code)
			}
		}
	}
	for _, status := range enum(t, "Order", "status") {
		if languages["en"]["order."+status] == "" || languages["en"]["status."+status] == "" {
			t.Errorf("no words for an order that is %s", status)
		}
	}
}
