package web_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"seckill/internal/testkit/fail"
	"seckill/internal/web"
)

// firstView is the most that a visitor's browser fetches before the page can be used, in bytes over the wire.
const firstView = 40_000

func newSite(t *testing.T) *web.Site {
	t.Helper()
	s, err := web.New(web.Config{Lab: true})
	fail.NowIf(t, err)
	return s
}

// sites are the service's pages and the laboratory's.
func sites(t *testing.T) []*web.Site {
	t.Helper()
	lab, err := web.NewLab(map[string]string{"picture.css": ".picture { color: red; }", "player.js": ""})
	fail.NowIf(t, err)
	return []*web.Site{newSite(t), lab}
}

func get(t *testing.T, s *web.Site, path string, headers ...string) *http.Response {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, req)
	return rec.Result()
}

func text(t *testing.T, resp *http.Response) string {
	t.Helper()
	var body io.Reader = resp.Body
	if resp.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		fail.NowIf(t, err)
		body = unzipped
	}
	all, err := io.ReadAll(body)
	fail.NowIf(t, err)
	return string(all)
}

var address = regexp.MustCompile(`(?:href|src)="(/static/[^"]+)"`)

// pages calls test with every page of every site.
func pages(t *testing.T, test func(t *testing.T, s *web.Site, path string)) {
	for _, s := range sites(t) {
		for _, path := range s.Paths() {
			if path == web.QRPath {
				continue
			}
			t.Run(path, func(t *testing.T) { test(t, s, path) })
		}
	}
}

// Every file that a page names is there, is kept for ever, and all together are small.
func TestFirstViewIsSmall(t *testing.T) {
	pages(t, func(t *testing.T, s *web.Site, path string) {
		for _, language := range []string{"en", "zh"} {
			page := get(t, s, path, "Accept-Encoding: gzip, br", "Accept-Language: "+language)
			fail.Unequal(t, page.Header.Get("Cache-Control"), "no-cache", "Cache-Control")
			sum, seen := int(page.ContentLength), map[string]bool{}
			for _, found := range address.FindAllStringSubmatch(text(t, page), -1) {
				if seen[found[1]] {
					continue
				}
				seen[found[1]] = true
				f := get(t, s, found[1], "Accept-Encoding: gzip")
				if f.StatusCode != http.StatusOK || f.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" {
					t.Errorf("%s: %s, Cache-Control %q", found[1], f.Status, f.Header.Get("Cache-Control"))
				}
				sum += int(f.ContentLength)
			}
			t.Logf("%s: the first view has %d files and %d bytes", language, len(seen), sum)
			if len(seen) < 5 || sum > firstView {
				t.Errorf("%s: the first view has %d files and %d bytes, at most %d", language, len(seen), sum, firstView)
			}
		}
	})
}

// A page gets its own messages, in the visitor's language, and of the others' none.
func TestMessagesByPageAndLanguage(t *testing.T) {
	own := map[string]string{"buyers": "sure.keep", "console": "steer.pause", "lab": "lab.bench.start"}
	all, err := web.Messages()
	fail.NowIf(t, err)
	pages(t, func(t *testing.T, s *web.Site, path string) {
		for _, language := range []string{"en", "zh"} {
			page := text(t, get(t, s, path, "Accept-Language: "+language))
			name := regexp.MustCompile(`data-page="(\w+)"`).FindStringSubmatch(page)[1]
			var modules []string
			for _, found := range address.FindAllStringSubmatch(page, -1) {
				if strings.Contains(found[1], "/messages-") {
					modules = append(modules, found[1])
				}
			}
			if len(modules) != 1 || !strings.HasSuffix(modules[0], "/messages-"+name+"-"+language+".js") {
				t.Fatalf("%s: the page asks for %q", language, modules)
			}
			messages := text(t, get(t, s, modules[0]))
			for of, key := range own {
				entry, err := json.Marshal(map[string]string{key: all[language][key]})
				fail.NowIf(t, err)
				fail.Unequal(t, strings.Contains(messages, strings.Trim(string(entry), "{}")), of == name, "%s: %s has %s", language, name, key)
			}
		}
	})
}

// A page has no inline script or style, which its policy would keep from running.
func TestNothingIsInline(t *testing.T) {
	pages(t, func(t *testing.T, s *web.Site, path string) {
		resp := get(t, s, path)
		policy := resp.Header.Get("Content-Security-Policy")
		fail.Without(t, policy, "default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'")
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") || strings.Contains(policy, "*") {
			t.Errorf("the policy is wide: %s", policy)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "Vary": "Accept-Encoding",
		} {
			fail.Unequal(t, resp.Header.Get(name), want, "%s", name)
		}
		if inline := regexp.MustCompile(`(?i)<script(?:\s[^>]*)?>[^<]|<style|\sstyle=|\son\w+=|javascript:|(?:src|href)="(?:https?:)?//`).FindString(text(t, resp)); inline != "" {
			t.Errorf("it has %q", inline)
		}
	})
}

func TestCaching(t *testing.T) {
	s := newSite(t)
	file := address.FindStringSubmatch(text(t, get(t, s, "/")))[1]
	for _, path := range []string{"/", file} {
		plain, zipped := get(t, s, path), get(t, s, path, "Accept-Encoding: gzip")
		if text(t, plain) != text(t, zipped) {
			t.Errorf("%s: the compressed text is another one", path)
		}
		tag := zipped.Header.Get("ETag")
		if tag == "" || tag == plain.Header.Get("ETag") {
			t.Errorf("%s: ETag %q, and %q when it is not compressed", path, tag, plain.Header.Get("ETag"))
		}
		again := get(t, s, path, "Accept-Encoding: gzip", "If-None-Match: "+tag)
		if again.StatusCode != http.StatusNotModified || text(t, &http.Response{Body: again.Body}) != "" {
			t.Errorf("%s: %s to its own ETag", path, again.Status)
		}
		if again := get(t, s, path, `If-None-Match: "another"`); again.StatusCode != http.StatusOK {
			t.Errorf("%s: %s to another ETag", path, again.Status)
		}
	}
	// Another version's folder: this version's file, which must not be kept there.
	other := regexp.MustCompile(`/static/\w+/`).ReplaceAllString(file, "/static/0123456789abcdef/")
	resp := get(t, s, other)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: %s, Cache-Control %q", other, resp.Status, resp.Header.Get("Cache-Control"))
	}
}

func TestServesNothingElse(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{
		"", "/index.html", "/static", "/static/", "/static/x/", "/static/x/nothing.js", "/static/x/../buyers.js", "/static/x/y/buyers.js",
		"/buyers.js", "/pages/buyers.html", "/messages/en.json", "/static/x/en.json",
		"/static/x%2Fbuyers.js", "/static/x%2fbuyers.js", "/static%2Fx/buyers.js", "/static%2fx%2fbuyers.js", "%2F", "%2fconsole",
		"/static/x%252Fbuyers.js",
	} {
		u, err := (&url.URL{}).Parse(path)
		fail.NowIf(t, err)
		if s.Serves(u) {
			t.Errorf("%q is served", path)
		}
	}
	for path, want := range map[string]int{
		"/nothing": http.StatusNotFound, "/static/x%2fbuyers.js": http.StatusNotFound, "/static/x/%62uyers.js": http.StatusOK,
	} {
		if resp := get(t, s, path); resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, resp.Status, want)
		}
	}
}

func TestAcceptEncoding(t *testing.T) {
	s := newSite(t)
	for header, want := range map[string]bool{
		"gzip": true, "GZIP": true, "br, gzip;q=0.5": true, "deflate, gzip ; q=1.0": true, "*": true, "br;q=1, *;q=0.1": true, "x-gzip": true,
		"": false, "br": false, "gzip;q=0": false, "gzip; q=0.000, *": false, "*;q=0": false, "identity": false, "gzipped": false, "gzip;q=x": false,
	} {
		got := get(t, s, "/", "Accept-Encoding: "+header).Header.Get("Content-Encoding") == "gzip"
		fail.Unequal(t, got, want, "Accept-Encoding %q: compressed", header)
	}
}

// A precondition that fails is answered without a body, and without the length of one.
func TestPreconditionThatFails(t *testing.T) {
	resp := get(t, newSite(t), "/", `If-Match: "another"`)
	if body := text(t, resp); resp.StatusCode != http.StatusPreconditionFailed || body != "" || resp.Header.Get("Content-Length") != "" {
		t.Errorf("%d, %q, %v", resp.StatusCode, body, resp.Header)
	}
}
