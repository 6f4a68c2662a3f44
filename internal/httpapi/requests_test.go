package httpapi_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"seckill/internal/testkit/fail"
)

// newRequest is a request with headers, each as "Name: value". Remote-Addr is the client's address.
func newRequest(ctx context.Context, method, path string, body io.Reader, headers ...string) *http.Request {
	req := httptest.NewRequestWithContext(ctx, method, path, body)
	for _, h := range headers {
		switch name, value, _ := strings.Cut(h, ": "); name {
		case "Host":
			req.Host = value
		case "Remote-Addr":
			req.RemoteAddr = value
		case "Content-Type":
			req.Header.Set(name, value)
		default:
			req.Header.Add(name, value)
		}
	}
	return req
}

// ask has a handler answer a request, and does not compare it with api/openapi.json.
func ask(ctx context.Context, h http.Handler, method, path string, body io.Reader, headers ...string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, newRequest(ctx, method, path, body, headers...))
	return rec
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	return ask(context.Background(), h, "GET", path, nil)
}

// serve sends one request without a body, under a context.
func (r *fixture) serve(ctx context.Context, method, path string, headers ...string) *httptest.ResponseRecorder {
	return ask(ctx, r.handler, method, path, nil, headers...)
}

// call is a request in a test, with headers as those of newRequest. A body is JSON, unless they say otherwise.
type call struct {
	method, path, body string
	headers            []string
}

func (r *fixture) do(t testing.TB, c call) *httptest.ResponseRecorder {
	t.Helper()
	var body io.Reader
	headers := c.headers
	if c.body != "" {
		body, headers = strings.NewReader(c.body), append([]string{"Content-Type: application/json"}, headers...)
	}
	req, rec := newRequest(t.Context(), c.method, c.path, body, headers...), httptest.NewRecorder()
	r.handler.ServeHTTP(rec, req)
	if !r.undescribed {
		checkDescribed(t, req, c.body, rec)
	}
	return rec
}

// want checks the status of the answer to a request.
func (r *fixture) want(t testing.TB, c call, status int) {
	t.Helper()
	if rec := r.do(t, c); rec.Code != status {
		t.Errorf("%s %s: %d %s, want %d", c.method, c.path, rec.Code, rec.Body, status)
	}
}

// problemJSON is a problem as a client reads it.
type problemJSON struct {
	Type, Title, Code, Detail string
	Field                     string
	Status, Most              int
	RequestID                 string `json:"request_id"`
	OrderStatus               string `json:"order_status"`
}

// wantProblem checks the form and the code of a problem, and returns it.
func wantProblem(t testing.TB, rec *httptest.ResponseRecorder, status int, code string) problemJSON {
	t.Helper()
	fail.Unequal(t, rec.Code, status, "%s", rec.Body)
	fail.Unequal(t, rec.Header().Get("Content-Type"), "application/problem+json")
	var p problemJSON
	fail.NowIf(t, json.Unmarshal(rec.Body.Bytes(), &p), "the problem is not JSON: %s", rec.Body)
	if p.Code != code || p.Status != status || p.Title == "" || p.Type != "urn:seckill:problem:"+code {
		t.Errorf("problem %+v, want code %q and status %d", p, code, status)
	}
	if id := rec.Header().Get("X-Request-ID"); id == "" || p.RequestID == "" {
		t.Errorf("request id %q in the header, %q in the problem", id, p.RequestID)
	}
	return p
}
