package httpapi_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/httpapi"
	"seckill/internal/lock"
)

// labWithInspectors is lab mode with mechanisms that support inspection.
func labWithInspectors(c *httpapi.Config, r *fixture) {
	c.Lab, c.LabHosts = true, []string{"example.com"}
	r.locks["fenced"] = &inspectable{broke: true, state: lock.State{
		Owner: "p:1", Count: 2, Token: 1<<63 + 1, TTL: 1500 * time.Millisecond, Waiting: 2, Queue: []lock.Owner{"p:2", "q:1"},
	}}
	r.locks["rw"] = &inspectable{state: lock.State{Owner: "p:3", Count: 3, Shared: true, TTL: lock.NoExpiry, Waiting: lock.WaitingUnknown}}
	r.locks["lua"] = &inspectable{}
}

func (r *fixture) inspectable(name string) *inspectable { return r.locks[name].(*inspectable) }

func TestLocks(t *testing.T) {
	const (
		fenced = `{"mechanism":"fenced","held":true,"owner":"p:1","count":2,"shared":false,"token":"9223372036854775809","ttl_ms":1500,"waiting":2,"queue":["p:2","q:1"]}`
		rw     = `{"mechanism":"rw","held":true,"owner":"p:3","count":3,"shared":true,"token":"0","ttl_ms":null,"waiting":null,"queue":[]}`
		free   = `{"mechanism":"lua","held":false,"owner":"","count":0,"shared":false,"token":"0","ttl_ms":0,"waiting":0,"queue":[]}`
	)
	for _, c := range []struct {
		method, path, want string
	}{
		{"GET", "order:1:42", `{"key":"order:1:42","locks":[` + fenced + `,` + rw + `]}`},
		{"GET", "order%3A1%3A42", `{"key":"order:1:42","locks":[` + fenced + `,` + rw + `]}`},
		{"GET", "o:a%253Ab/c%20d?lock=fenced", `{"key":"o:a%3Ab/c d","locks":[` + fenced + `]}`},
		{"GET", "k?lock=rw", `{"key":"k","locks":[` + rw + `]}`},
		{"GET", "k?lock=lua", `{"key":"k","locks":[` + free + `]}`},
		{"DELETE", "k?lock=fenced", `{"released":true}`},
		{"DELETE", "k?lock=lua", `{"released":false}`},
	} {
		rec := newFixture(t, labWithInspectors).do(t, call{c.method, "/api/v1/locks/" + c.path, "", nil})
		if rec.Code != http.StatusOK || rec.Body.String() != c.want {
			t.Errorf("%s %s\n got %d %s\nwant %s", c.method, c.path, rec.Code, rec.Body, c.want)
		}
	}
	r := newFixture(t, lab) // its mechanisms do not support inspection
	if rec := r.do(t, call{"GET", "/api/v1/locks/k", "", nil}); rec.Body.String() != `{"key":"k","locks":[]}` {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// A store that does not answer is not reported as a free lock, and does not hide what the others report.
func TestLockInspectionFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, labWithInspectors)
		r.inspectable("fenced").err = fmt.Errorf("%w: dial secret-host", lock.ErrUnavailable)
		r.inspectable("lua").hangs = true
		rec := r.do(t, call{"GET", "/api/v1/locks/k", "", nil})
		body := rec.Body.String()
		if rec.Code != http.StatusOK || strings.Contains(body, "secret-host") ||
			!strings.Contains(body, `"mechanism":"rw"`) || !strings.HasSuffix(body, `"unanswered":["fenced","lua"]}`) {
			t.Errorf("%d %s", rec.Code, body)
		}
		for _, method := range []string{"GET", "DELETE"} {
			wantProblem(t, r.do(t, call{method, "/api/v1/locks/k?lock=fenced", "", nil}), http.StatusServiceUnavailable, "unavailable")
		}
		for err, says := range map[error]string{
			errors.ErrUnsupported: "fenced cannot", lock.ErrWrongKind: "no lock of fenced", lock.ErrInvalid: "none for fenced",
		} {
			r.inspectable("fenced").err = fmt.Errorf("inside: %w", err)
			for _, method := range []string{"GET", "DELETE"} {
				p := wantProblem(t, r.do(t, call{method, "/api/v1/locks/k?lock=fenced", "", nil}), http.StatusBadRequest, "invalid_request")
				if !strings.Contains(p.Detail, says) {
					t.Errorf("%s, %v: detail %q", method, err, p.Detail)
				}
			}
		}
	})
}

// A forced release is logged, with the caller, also if it fails.
func TestForcedReleaseIsLogged(t *testing.T) {
	for header, want := range map[string][]string{
		"X-User-ID: 42": {`"released":true`, `"user":42`},
		"X-Other: none": {`"released":true`},
	} {
		r := newFixture(t, labWithInspectors)
		r.do(t, call{"DELETE", "/api/v1/locks/order:1:7?lock=fenced", "", []string{header}})
		if got := r.inspectable("fenced").broken; len(got) != 1 || got[0] != "order:1:7" {
			t.Errorf("took away %q", got)
		}
		line, _, _ := strings.Cut(r.log.String(), "\n")
		for _, part := range append(want, "taken away", `"lock":"fenced"`, `"key":"order:1:7"`, `"remote":"192.0.2.1:1234"`, `"request_id"`) {
			if !strings.Contains(line, part) {
				t.Errorf("%s: no %s in %s", header, part, line)
			}
		}
	}
	r := newFixture(t, labWithInspectors)
	r.inspectable("fenced").err = lock.ErrUnavailable
	r.do(t, call{"DELETE", "/api/v1/locks/k?lock=fenced", "", nil})
	if !strings.Contains(r.log.String(), "taken away") || !strings.Contains(r.log.String(), lock.ErrUnavailable.Error()) {
		t.Errorf("a failure is not written down: %s", r.log.String())
	}
}
